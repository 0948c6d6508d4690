package shard

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/membership"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// allOwnedObjects are caches that show any object as this shard's.
type allOwnedObjects struct{}

func (allOwnedObjects) Get(context.Context, *ownership.Kind, int, types.NamespacedName) (client.Object, error) {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{shardingv1alpha1.LabelShard("ring"): "a"}}}, nil
}

func (allOwnedObjects) ForEach(context.Context, *ownership.Kind, types.UID, func(client.Object) error) error {
	return nil
}

// TestNoReconcileWithoutMembership has a process with objects in its caches that does not certainly hold its Lease.
func TestNoReconcileWithoutMembership(t *testing.T) {
	calls := 0
	wrapped := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		calls++
		return reconcile.Result{}, nil
	})
	s := &Shard{owned: ownership.New(ownership.Options{Ring: "ring", Shard: "a", Objects: allOwnedObjects{}, ConcurrentReleases: 1})}
	kind, cache, err := s.owned.Declare(corev1.SchemeGroupVersion.WithKind("ConfigMap"), &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	leader := &election{Candidate: membership.NewCandidate(membership.Times{}, nil)}
	for name, reconciler := range map[string]reconcile.Reconciler{
		"shard":  &ownReconciler[reconcile.Request]{TypedReconciler: wrapped, shard: s, kind: kind, cache: cache, key: keyOfRequest},
		"leader": &leadingReconciler[reconcile.Request]{TypedReconciler: wrapped, election: leader},
	} {
		t.Run(name, func(t *testing.T) {
			calls = 0
			result, err := reconciler.Reconcile(t.Context(), reconcile.Request{})
			if err != nil || calls > 0 || result.RequeueAfter <= 0 {
				t.Errorf("reconciled %d times by a process that is not a member, then %+v, %v", calls, result, err)
			}
		})
	}
}
