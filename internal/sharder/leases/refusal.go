package leases

import (
	"cmp"
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
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

const (
	// rivalPeriod is how soon to look again at the Lease of another sharder's shard.
	rivalPeriod = 30 * time.Second
	// refusedPeriod is how soon to look again at a Lease that another one keeps from being a shard. A
	// change of the Lease itself causes a reconcile at once.
	refusedPeriod = 30 * time.Second
	// retryUnknownRingAfter is how soon to reconcile a Lease again whose ring this process does not know yet.
	retryUnknownRingAfter = 100 * time.Millisecond
)

// refuse says why a Lease with a ring's label is no shard of it. When that changes, it is looked at
// again.
func (r *Reconciler) refuse(ctx context.Context, lease *coordinationv1.Lease) (reconcile.Result, error) {
	ring, err := r.Ring(ctx, lease.Labels[shardingv1alpha1.LabelControllerRing])
	if err != nil {
		return reconcile.Result{}, err
	}
	why, stop := refusal(lease, ring), false
	if mustStop, because := r.conflict(lease); because != "" {
		why, stop = cmp.Or(why, because), mustStop
	}
	if why == "" {
		return reconcile.Result{RequeueAfter: retryUnknownRingAfter}, nil
	}
	if r.Rival(lease.Labels[shardingv1alpha1.LabelControllerRing]) {
		// It is a shard for that one, which shows its state. If it dies, the Lease is looked at again.
		return reconcile.Result{RequeueAfter: rivalPeriod}, nil
	}
	if before, told := r.refused.Swap(client.ObjectKeyFromObject(lease), why); !told || before != why {
		r.Events.Eventf(lease, nil, corev1.EventTypeWarning, "ShardRefused", "Membership", "%s", why)
	}
	if stop && held(lease) {
		err = r.takeOver(ctx, lease, "")
	} else {
		err = r.clear(ctx, lease)
	}
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: watchful}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	case stop:
		return reconcile.Result{RequeueAfter: refusedPeriod}, nil
	}
	return reconcile.Result{}, nil
}

// conflict is why other Leases or limits keep a Lease from being a shard, or "", and whether its process
// must stop: it may work on objects that another shard owns.
func (r *Reconciler) conflict(lease *coordinationv1.Lease) (stop bool, why string) {
	key, ring := client.ObjectKeyFromObject(lease), lease.Labels[shardingv1alpha1.LabelControllerRing]
	if namesake, taken := r.Shards.Namesake(key); taken {
		return true, fmt.Sprintf("The ring %s has an older shard of this name in namespace %s, and both would reconcile the same objects. "+
			"Use another name for this shard, or delete the lease %s/%s if the older shard is gone for good", ring, namesake, namesake, lease.Name)
	}
	switch r.Shards.Refusal(key) {
	case members.DurationTooLong:
		return true, fmt.Sprintf("The lease duration is %s and must not exceed %s: if the shard dies, its objects are not reconciled "+
			"for that long. Set a shorter lease duration", duration(lease), membership.MaxDuration)
	case members.RingFull:
		return true, fmt.Sprintf("The ring %s already has %d shards with older leases, which is the maximum. Run fewer shards, or several rings", ring, membership.MaxShards)
	case members.NotRefused, members.NoRing, members.NameTooLong, members.WrongNamespace, members.NameTaken:
	}
	return false, ""
}

func held(lease *coordinationv1.Lease) bool {
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == lease.Name
}

// refusal is why a ring, or nil if there is none, does not take a Lease, or "".
func refusal(lease *coordinationv1.Lease, ring *shardingv1alpha1.ControllerRing) string {
	switch {
	case len(lease.Name) > shardingv1alpha1.MaxNameLength:
		return fmt.Sprintf("The lease's name has %d characters and must have at most %d, because it is used as a label value",
			len(lease.Name), shardingv1alpha1.MaxNameLength)
	case ring == nil:
		return fmt.Sprintf("ControllerRing %q not found", lease.Labels[shardingv1alpha1.LabelControllerRing])
	case len(ring.Spec.ShardNamespaces) > 0 && !slices.Contains(ring.Spec.ShardNamespaces, lease.Namespace):
		return fmt.Sprintf("The ring %s accepts shards only from the namespaces %s (spec.shardNamespaces)",
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
	return r.Client.Patch(ctx, changed, client.MergeFromWithOptions(lease, client.MergeFromWithOptimisticLock{}))
}
