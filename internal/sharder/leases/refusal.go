package leases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// rivalPeriod is how soon to look again at a Lease that is no shard here, but another sharder's.
const rivalPeriod = 30 * time.Second

// refuse says why a Lease with a ring's label is no shard of it. When that changes, it is looked at
// again.
func (r *Reconciler) refuse(ctx context.Context, lease *coordinationv1.Lease) (reconcile.Result, error) {
	// soon is when this process has learned a ring that it has just seen.
	const soon = 100 * time.Millisecond
	ring, err := r.Ring(ctx, lease.Labels[shardingv1alpha1.LabelControllerRing])
	if err != nil {
		return reconcile.Result{}, err
	}
	why := refusal(lease, ring)
	namesake, twice := r.Shards.Namesake(client.ObjectKeyFromObject(lease))
	if why == "" && twice {
		why = fmt.Sprintf("The ring %s has a shard of this name in the namespace %s: they would work on the same objects. Give it another name", ring.Name, namesake)
	}
	if why == "" {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	if r.Rival(lease.Labels[shardingv1alpha1.LabelControllerRing]) {
		// It is a shard for that one, which shows its state. If it dies, the Lease is looked at again.
		return reconcile.Result{RequeueAfter: rivalPeriod}, nil
	}
	if err := r.clear(ctx, lease); err != nil {
		return reconcile.Result{}, err
	}
	if before, told := r.refused.Swap(client.ObjectKeyFromObject(lease), why); !told || before != why {
		r.Events.Eventf(lease, nil, corev1.EventTypeWarning, "ShardRefused", "Membership", "%s", why)
	}
	if twice && held(lease) {
		// Its process must stop: it has the other one's label.
		if err := r.takeOver(ctx, lease); err != nil && !apierrors.IsConflict(err) {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	return reconcile.Result{}, nil
}

func held(lease *coordinationv1.Lease) bool {
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == lease.Name
}

// refusal is why a ring, or nil if there is none, does not take a Lease, or "".
func refusal(lease *coordinationv1.Lease, ring *shardingv1alpha1.ControllerRing) string {
	switch {
	case len(lease.Name) > shardingv1alpha1.MaxNameLength:
		return fmt.Sprintf("The lease's name has %d characters, and a shard's name at most %d, because it becomes the value of a label",
			len(lease.Name), shardingv1alpha1.MaxNameLength)
	case ring == nil:
		return fmt.Sprintf("There is no ControllerRing %q to join", lease.Labels[shardingv1alpha1.LabelControllerRing])
	case len(ring.Spec.ShardNamespaces) > 0 && !slices.Contains(ring.Spec.ShardNamespaces, lease.Namespace):
		return fmt.Sprintf("The ring %s takes shards only from the namespaces %s: see its spec.shardNamespaces",
			ring.Name, strings.Join(ring.Spec.ShardNamespaces, ", "))
	}
	return ""
}

// clear removes the state label of a Lease that is no shard.
func (r *Reconciler) clear(ctx context.Context, lease *coordinationv1.Lease) error {
	if _, shown := lease.Labels[shardingv1alpha1.LabelState]; !shown {
		return nil
	}
	changed := lease.DeepCopy()
	delete(changed.Labels, shardingv1alpha1.LabelState)
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(lease, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return nil // it has changed, and comes again because of that
	}
	return client.IgnoreNotFound(err)
}
