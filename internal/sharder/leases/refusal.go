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
	// otherSharderRecheckInterval is the time between two checks of a Lease that an in-process sharder handles.
	otherSharderRecheckInterval = 30 * time.Second
	// refusedRecheckInterval is the time between two checks of a Lease that is refused because of other Leases. A
	// change of the Lease itself causes a reconcile at once.
	refusedRecheckInterval = 30 * time.Second
	// retryUnknownRingAfter is the delay of a reconcile until this process has learned the ring.
	retryUnknownRingAfter = 100 * time.Millisecond
)

// refuse reports why a ring does not accept a Lease, and takes the Lease over if its process must stop.
func (r *Reconciler) refuse(ctx context.Context, lease *coordinationv1.Lease) (reconcile.Result, error) {
	ring, err := r.Ring(ctx, lease.Labels[shardingv1alpha1.LabelControllerRing])
	if err != nil {
		return reconcile.Result{}, err
	}
	reason, stop := refusal(lease, ring), false
	if mustStop, conflict := r.conflict(lease); conflict != "" {
		reason, stop = cmp.Or(reason, conflict), mustStop
	}
	if reason == "" {
		return reconcile.Result{RequeueAfter: retryUnknownRingAfter}, nil
	}
	if r.OtherSharderActive(lease.Labels[shardingv1alpha1.LabelControllerRing]) {
		// The other sharder accepts the shard and shows its state.
		return reconcile.Result{RequeueAfter: otherSharderRecheckInterval}, nil
	}
	if before, reported := r.refused.Swap(client.ObjectKeyFromObject(lease), reason); !reported || before != reason {
		r.Events.Eventf(lease, nil, corev1.EventTypeWarning, "ShardRefused", "Membership", "%s", reason)
	}
	if stop && heldByShard(lease) {
		err = r.takeOver(ctx, lease, "")
	} else {
		err = r.clear(ctx, lease)
	}
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: expiredRecheckInterval}, nil
	case apierrors.IsForbidden(err) && r.Shards.Refusal(client.ObjectKeyFromObject(lease)) == members.WrongNamespace:
		return reconcile.Result{}, nil // the sharder has no permissions in namespaces of strangers
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	case stop:
		return reconcile.Result{RequeueAfter: refusedRecheckInterval}, nil
	}
	return reconcile.Result{}, nil
}

// conflict returns why other Leases or limits keep a Lease from being a shard, or "", and whether its process
// must stop, because it may reconcile objects that another shard owns.
func (r *Reconciler) conflict(lease *coordinationv1.Lease) (stop bool, reason string) {
	key, ring := client.ObjectKeyFromObject(lease), lease.Labels[shardingv1alpha1.LabelControllerRing]
	if namespace, taken := r.Shards.Incumbent(key); taken {
		return true, fmt.Sprintf("The ring %s has an older shard of this name in namespace %s, and both would reconcile the same objects. "+
			"Use another name for this shard, or delete the lease %s/%s if the older shard is gone for good", ring, namespace, namespace, lease.Name)
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

func heldByShard(lease *coordinationv1.Lease) bool {
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == lease.Name
}

// refusal returns why a ring, which is nil if it does not exist, does not accept a Lease, or "".
func refusal(lease *coordinationv1.Lease, ring *shardingv1alpha1.ControllerRing) string {
	switch {
	case len(lease.Name) > shardingv1alpha1.MaxNameLength:
		return fmt.Sprintf("The lease's name has %d characters and must have at most %d, because it is used as a label value",
			len(lease.Name), shardingv1alpha1.MaxNameLength)
	case ring == nil:
		return fmt.Sprintf("ControllerRing %q not found", lease.Labels[shardingv1alpha1.LabelControllerRing])
	}
	if accepted := ring.AcceptedNamespaces(); len(accepted) > 0 && !slices.Contains(accepted, lease.Namespace) {
		return fmt.Sprintf("The ring %s accepts shards only from the namespaces %s (spec.shardNamespaces or spec.shards)",
			ring.Name, strings.Join(accepted, ", "))
	}
	return ""
}

// clear removes the state label of a refused Lease.
func (r *Reconciler) clear(ctx context.Context, lease *coordinationv1.Lease) error {
	if _, shown := lease.Labels[shardingv1alpha1.LabelState]; !shown {
		return nil
	}
	changed := lease.DeepCopy()
	delete(changed.Labels, shardingv1alpha1.LabelState)
	return r.Client.Patch(ctx, changed, client.MergeFromWithOptions(lease, client.MergeFromWithOptimisticLock{}))
}
