package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

func TestDeclarations(t *testing.T) {
	other := lease("c")
	other.Labels[shardingv1alpha1.LabelControllerRing] = "leases-only"
	nameless := lease("d")
	nameless.Labels[shardingv1alpha1.LabelControllerRing] = ""
	sharderOnly := elected("x")
	sharderOnly.Labels[shardingv1alpha1.LabelSharder] = "sharder-only"
	rings := []shardingv1alpha1.ControllerRing{*controllerRing(), *controllerRing()}
	rings[1].Name = "empty"
	found := declarations(rings, &leases{
		shards:   []coordinationv1.Lease{*lease("a"), *lease("b"), *other, *nameless},
		sharders: []coordinationv1.Lease{*elected("a"), *sharderOnly},
	})
	var got []string
	for _, d := range found {
		words := []string{d.name}
		if d.ring != nil {
			words = append(words, "declared")
		}
		for _, l := range d.shards {
			words = append(words, l.Name)
		}
		got = append(got, strings.Join(words, " ")+strings.Repeat(" sharder", len(d.sharders)))
	}
	want := []string{"empty declared", "leases-only c", "ring declared a b sharder", "sharder-only sharder"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSpec(t *testing.T) {
	websites := resource("websites.example.com", "deployments.apps")
	for name, test := range map[string]struct {
		ring     *shardingv1alpha1.ControllerRing
		leases   []*coordinationv1.Lease
		want     []string
		warnings []string
	}{
		"declared": {controllerRing(), []*coordinationv1.Lease{lease("a", worksOn(websites))}, []string{"websites.example.com", "deployments.apps"}, nil},
		"incomplete": {
			controllerRing(),
			[]*coordinationv1.Lease{lease("a", worksOn(websites, resource("themes.example.com")))},
			[]string{"websites.example.com", "deployments.apps"},
			[]string{"the shards reconcile themes.example.com, which spec.resources of the ControllerRing does not list"},
		},
		"by the shards": {nil, []*coordinationv1.Lease{lease("a", worksOn(websites)), lease("b", worksOn(websites))}, []string{"websites.example.com", "deployments.apps"}, nil},
		"in a rollout": {
			nil,
			[]*coordinationv1.Lease{lease("a", worksOn(websites)), lease("b", worksOn(resource("websites.example.com", "services")))},
			[]string{"websites.example.com", "services", "deployments.apps"},
			[]string{"not all shards declare the same resources"},
		},
		"by dead shards, without live ones": {nil, []*coordinationv1.Lease{lease("a", heldBy(""), worksOn(websites))}, []string{"websites.example.com", "deployments.apps"}, nil},
		"not by dead shards": {
			nil,
			[]*coordinationv1.Lease{lease("a", heldBy(""), worksOn(resource("themes.example.com"))), lease("b", worksOn(websites))},
			[]string{"websites.example.com", "deployments.apps"},
			nil,
		},
		"unknown": {nil, []*coordinationv1.Lease{lease("a")}, nil, []string{"the resources of the ring are not known"}},
		"invalid": {
			nil,
			[]*coordinationv1.Lease{lease("a", func(l *coordinationv1.Lease) { l.Annotations[shardingv1alpha1.AnnotationResources] = "{" })},
			nil,
			[]string{"the resources of a are not known", "the resources of the ring are not known"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := &declaration{name: "ring", ring: test.ring, shards: test.leases}
			spec, warnings := d.spec()
			if spec.Name != "ring" {
				t.Errorf("it is called %q", spec.Name)
			}
			if diff := cmp.Diff(test.want, namesOf(spec.Spec.Resources)); diff != "" {
				t.Error(diff)
			}
			expectWords(t, warnings, test.warnings)
		})
	}
}

func TestSelector(t *testing.T) {
	selects := func(text string) func(*coordinationv1.Lease) {
		return func(l *coordinationv1.Lease) { l.Annotations[shardingv1alpha1.AnnotationNamespaceSelector] = text }
	}
	for name, test := range map[string]struct {
		leases []*coordinationv1.Lease
		want   *metav1.LabelSelector
	}{
		"none":                {[]*coordinationv1.Lease{lease("a")}, nil},
		"one":                 {[]*coordinationv1.Lease{lease("a", selects(`{"matchLabels":{"a":"b"}}`))}, &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
		"of a live one first": {[]*coordinationv1.Lease{lease("a", heldBy(""), selects(`{"matchLabels":{"a":"b"}}`)), lease("b", selects(`{}`))}, &metav1.LabelSelector{}},
		"invalid":             {[]*coordinationv1.Lease{lease("a", selects("{"))}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec, _ := (&declaration{name: "ring", shards: test.leases}).spec()
			if diff := cmp.Diff(test.want, spec.Spec.NamespaceSelector); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// expectWords compares texts with their expected beginnings.
func expectWords(t *testing.T, got, beginnings []string) {
	t.Helper()
	ok := len(got) == len(beginnings)
	for i := 0; ok && i < len(got); i++ {
		ok = strings.HasPrefix(got[i], beginnings[i])
	}
	if !ok {
		t.Errorf("%q, want %q", got, beginnings)
	}
}
