package rings

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

func TestDisjointSelectors(t *testing.T) {
	for name, test := range map[string]struct {
		a, b string
		want bool
	}{
		"everything":                {"", "", false},
		"another label":             {"a=1", "b=2", false},
		"same value":                {"a=1", "a=1", false},
		"different values":          {"a=1", "a=2", true},
		"values in common":          {"a in (1, 2)", "a in (2, 3)", false},
		"no value in common":        {"a in (1, 2)", "a in (3, 4)", true},
		"excluded value":            {"a=1", "a notin (1, 2)", true},
		"partly excluded":           {"a in (1, 3)", "a notin (1, 2)", false},
		"both exclude":              {"a notin (1)", "a notin (2)", false},
		"value or none":             {"a=1", "!a", true},
		"some value or none":        {"a", "!a", true},
		"some value and a value":    {"a", "a=1", false},
		"one label of two suffices": {"a=1,b=1", "b=1,a=2", true},
	} {
		a, err := labels.Parse(test.a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := labels.Parse(test.b)
		if err != nil {
			t.Fatal(err)
		}
		if disjoint(a, b) != test.want || disjoint(b, a) != test.want {
			t.Errorf("%s: got %t and %t", name, disjoint(a, b), disjoint(b, a))
		}
	}
	if !disjoint(labels.Nothing(), labels.Everything()) {
		t.Error("a selector of nothing overlaps")
	}
}

func declared(name, resource string, selector *metav1.LabelSelector) shardingv1alpha1.ControllerRing {
	return shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: shardingv1alpha1.ControllerRingSpec{
			NamespaceSelector: selector,
			Resources: []shardingv1alpha1.RingResource{{
				GroupResource:       shardingv1alpha1.GroupResource{Resource: resource},
				ControlledResources: []shardingv1alpha1.GroupResource{{Resource: "secrets"}},
			}},
		},
	}
}

func TestSharedResources(t *testing.T) {
	main := func(name string, namespaced bool) catalog.Resource {
		return catalog.Resource{Resource: schema.GroupVersionResource{Version: "v1", Resource: name}, Kind: catalog.Kind{Namespaced: namespaced}}
	}
	controlled := main("secrets", true)
	controlled.Controllers = []catalog.Kind{{}}
	project := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"project": value}}
	}
	selector := func(value string) labels.Selector {
		return labels.SelectorFromSet(labels.Set{"project": value})
	}
	deleted := declared("deleted", "configmaps", nil)
	deleted.DeletionTimestamp = &metav1.Time{}
	all := []shardingv1alpha1.ControllerRing{
		declared("own", "configmaps", nil), declared("z", "configmaps", nil), declared("a", "configmaps", project("one")),
		declared("pods", "pods", nil), declared("secrets", "secrets", nil), declared("nodes", "nodes", project("one")), deleted,
	}
	configMaps := schema.GroupResource{Resource: "configmaps"}
	for name, test := range map[string]struct {
		ring *catalog.Ring
		want []Shared
	}{
		"nothing in common": {&catalog.Ring{Name: "own", Namespaces: labels.Everything(), Resources: []catalog.Resource{main("jobs", true), controlled}}, nil},
		"a main resource":   {&catalog.Ring{Name: "own", Namespaces: labels.Everything(), Resources: []catalog.Resource{main("configmaps", true), controlled}}, []Shared{{configMaps, []string{"a", "z"}}}},
		"other namespaces":  {&catalog.Ring{Name: "own", Namespaces: selector("two"), Resources: []catalog.Resource{main("configmaps", true)}}, []Shared{{configMaps, []string{"z"}}}},
		"a resource without namespaces": {
			&catalog.Ring{Name: "own", Namespaces: selector("two"), Resources: []catalog.Resource{main("nodes", false)}},
			[]Shared{{schema.GroupResource{Resource: "nodes"}, []string{"nodes"}}},
		},
		"most shared first": {
			&catalog.Ring{Name: "own", Namespaces: labels.Everything(), Resources: []catalog.Resource{main("pods", true), main("configmaps", true)}},
			[]Shared{{configMaps, []string{"a", "z"}}, {schema.GroupResource{Resource: "pods"}, []string{"pods"}}},
		},
	} {
		if diff := cmp.Diff(test.want, sharedResources(test.ring, all, &metav1.LabelSelector{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if first, second := declared("a", "pods", nil), declared("b", "pods", nil); !ShareMain(&first, &second) {
		t.Error("two rings of pods share no main resource")
	}
	if first, second := declared("a", "pods", nil), declared("b", "secrets", nil); ShareMain(&first, &second) {
		t.Error("a controlled resource counts as a main resource")
	}
}

// TestTooManyRingsOnOneResourceAreReported in a condition that stays short.
func TestTooManyRingsOnOneResourceAreReported(t *testing.T) {
	shared := []Shared{{Resource: schema.GroupResource{Resource: "configmaps"}}}
	for len(shared[0].Rings) < maxRingsPerResource-1 {
		shared[0].Rings = append(shared[0].Rings, fmt.Sprintf("ring-%d", len(shared[0].Rings)))
	}
	if got := exclusiveCondition(shared); got.Reason != shardingv1alpha1.ReasonSharedResource || !strings.Contains(got.Message, "configmaps (rings ring-0, ") {
		t.Errorf("the condition is %+v", got)
	}
	shared[0].Rings = append(shared[0].Rings, "one-more")
	got := exclusiveCondition(shared)
	if got.Reason != shardingv1alpha1.ReasonTooManyRings || !strings.Contains(got.Message, "31 rings") || !strings.Contains(got.Message, "and 25 more") {
		t.Errorf("the condition is %+v", got)
	}
}
