package main

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// TestDestination expects that only names of live shards of the ring are used.
func TestDestination(t *testing.T) {
	lease := func(name, ring, holder string, annotations map[string]string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "here", Name: name, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: ring}, Annotations: annotations,
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
		}
	}
	c := &controller{
		client: fake.NewClientset(lease("live", "ring", "live", nil), lease("dead", "ring", "", nil), lease("foreign", "other", "foreign", nil),
			lease("leaving", "ring", "leaving", map[string]string{shardingv1alpha1.AnnotationLeaving: "true"})),
		selection: selection{shard: "this", ring: "ring", namespace: "here"},
	}
	for value, want := range map[string]string{
		"live": "live", "this": "", "dead": "", "foreign": "", "leaving": "", "true": "", "nobody": "", "": "", "Not a name": "",
	} {
		if got, err := c.destination(t.Context(), value); err != nil || got != want {
			t.Errorf("destination of %q is %q, %v, want %q", value, got, err, want)
		}
	}
}
