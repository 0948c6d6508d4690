package v1alpha1_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{CRDs: []string{"config/crds"}})
}

func resource(group, name string, controlled ...shardingv1alpha1.GroupResource) shardingv1alpha1.RingResource {
	return shardingv1alpha1.RingResource{
		GroupResource:       shardingv1alpha1.GroupResource{Group: group, Resource: name},
		ControlledResources: controlled,
	}
}

func expression(operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: operator, Values: values}}}
}

// TestSchema creates valid and invalid rings on a real API server.
func TestSchema(t *testing.T) {
	r := rig.Shared(t)
	configMaps := shardingv1alpha1.GroupResource{Resource: "configmaps"}
	many := make([]shardingv1alpha1.RingResource, 33)
	for i := range many {
		many[i] = resource("example.com", strings.Repeat("x", i+1))
	}
	for name, test := range map[string]struct {
		ring string
		spec shardingv1alpha1.ControllerRingSpec
		want string // part of the error, or empty
	}{
		"a valid ring": {spec: shardingv1alpha1.ControllerRingSpec{
			Resources:         []shardingv1alpha1.RingResource{resource("example.com", "websites", configMaps), resource("", "secrets", configMaps)},
			NamespaceSelector: expression(metav1.LabelSelectorOpIn, "b"),
			ShardNamespaces:   []string{"default"},
		}},
		"a name of 63 characters": {ring: strings.Repeat("r", 63)},
		"a name of 64 characters": {ring: strings.Repeat("r", 64), want: "at most 63 characters"},
		"a resource twice": {
			spec: shardingv1alpha1.ControllerRingSpec{Resources: []shardingv1alpha1.RingResource{resource("", "secrets"), resource("", "secrets")}},
			want: "Duplicate value",
		},
		"a controlled resource twice": {
			spec: shardingv1alpha1.ControllerRingSpec{Resources: []shardingv1alpha1.RingResource{resource("", "secrets", configMaps, configMaps)}},
			want: "Duplicate value",
		},
		"a resource in both lists": {
			spec: shardingv1alpha1.ControllerRingSpec{Resources: []shardingv1alpha1.RingResource{resource("", "secrets", configMaps), resource("", "configmaps")}},
			want: "must not be in both",
		},
		"a resource with a kind's name": {
			spec: shardingv1alpha1.ControllerRingSpec{Resources: []shardingv1alpha1.RingResource{resource("", "ConfigMap")}},
			want: "should match",
		},
		"an empty resource name": {
			spec: shardingv1alpha1.ControllerRingSpec{Resources: []shardingv1alpha1.RingResource{resource("apps", "")}},
			want: "resources[0].resource",
		},
		"too many resources": {spec: shardingv1alpha1.ControllerRingSpec{Resources: many}, want: "Too many"},
		"an operator that does not exist": {
			spec: shardingv1alpha1.ControllerRingSpec{NamespaceSelector: expression("Near", "b")},
			want: "operator must be In, NotIn, Exists or DoesNotExist",
		},
		"In without values": {
			spec: shardingv1alpha1.ControllerRingSpec{NamespaceSelector: expression(metav1.LabelSelectorOpIn)},
			want: "In and NotIn require values",
		},
		"Exists with values": {
			spec: shardingv1alpha1.ControllerRingSpec{NamespaceSelector: expression(metav1.LabelSelectorOpExists, "b")},
			want: "In and NotIn require values",
		},
		"an action that does not exist": {
			spec: shardingv1alpha1.ControllerRingSpec{Drain: &shardingv1alpha1.DrainPolicy{OnTimeout: "Panic"}},
			want: "Unsupported value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ring := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: test.ring}, Spec: test.spec}
			if ring.Name == "" {
				ring.GenerateName = "ring-"
			}
			err := r.Client.Create(t.Context(), ring)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
