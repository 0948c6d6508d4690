// Package leases acts on the Leases of shards: it shows their states to people, takes over the
// Lease of a shard that has stopped renewing, and deletes those of shards that are long dead.
//
// It promises that a Lease is taken over only with a write that proves the API server works and
// that the shard has not renewed meanwhile. A shard that sees its Lease taken over stops.
package leases

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// Shards knows the states of shards.
type Shards interface {
	Observe(lease *coordinationv1.Lease)
	Shard(lease client.ObjectKey) (members.Shard, bool)
	// Refusal is why the ring does not accept a Lease.
	Refusal(lease client.ObjectKey) members.Refusal
	// Namesake is where the Lease is that keeps this one of the same name from being a shard.
	Namesake(lease client.ObjectKey) (namespace string, found bool)
}

// Reconciler acts on Leases. One replica of the sharder runs it.
type Reconciler struct {
	Client client.Client
	Shards Shards
	// Ring returns a ring as it was declared, or nil.
	Ring func(ctx context.Context, name string) (*shardingv1alpha1.ControllerRing, error)
	// Rival tells whether another sharder, in an instance, is at work on a ring. What that shows is its business.
	Rival  func(ring string) bool
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Transition is told each change of a shard's state that is shown to people.
	Transition func(ring string, from, to membership.State)

	// refused is why a Lease is no shard, by its key, so that it is told once and not at each renewal.
	refused sync.Map
	// cordoned has the keys of the Leases whose shards are, for the same reason.
	cordoned sync.Map
}

// watchful is how soon to look again at a shard that may be dying: the renewal of another shard,
// which causes no look at this one, may decide it.
const watchful = 250 * time.Millisecond

// Reconcile brings the Lease of a shard in line with its state.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := r.reconcile(ctx, request)
	if ctx.Err() != nil {
		// This process ends, and what it could not write is no failure: who is the sharder next looks at all
		// Leases. An instance that is both releases its own Lease shortly before.
		result, err = reconcile.Result{}, nil
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	lease := &coordinationv1.Lease{} // the cache's own: all that is written is a copy
	if err := r.Client.Get(ctx, request.NamespacedName, lease, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.refused.Delete(request.NamespacedName)
			r.cordoned.Delete(request.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r.Shards.Observe(lease)
	shard, member := r.Shards.Shard(request.NamespacedName)
	if !member {
		return r.refuse(ctx, lease)
	}
	r.refused.Delete(request.NamespacedName)
	r.tellCordoned(lease, shard)
	if err := r.act(ctx, lease, shard); err != nil {
		if apierrors.IsConflict(err) {
			// The Lease was written meanwhile, most likely by its shard. A mere renewal causes no reconcile.
			return reconcile.Result{RequeueAfter: watchful}, nil
		}
		return reconcile.Result{}, fmt.Errorf("acting on a shard that is %s: %w", shard.State, err)
	}
	return r.again(shard), nil
}

// again says when the state may change by itself.
func (r *Reconciler) again(shard members.Shard) reconcile.Result {
	if shard.Again.IsZero() {
		return reconcile.Result{}
	}
	wait := max(shard.Again.Sub(r.Clock.Now()), time.Millisecond)
	if shard.State == membership.Expired {
		wait = min(wait, watchful)
	}
	return reconcile.Result{RequeueAfter: wait}
}

// act does what the state asks for.
func (r *Reconciler) act(ctx context.Context, lease *coordinationv1.Lease, shard members.Shard) error {
	switch shard.State {
	case membership.Uncertain:
		if err := r.takeOver(ctx, lease, membership.Dead); err != nil {
			return err
		}
		r.tell(ctx, lease, membership.Uncertain, membership.Dead, takenOver(lease))
		return nil
	case membership.Orphaned:
		return r.remove(ctx, lease)
	case membership.Ready, membership.Expired, membership.Dead:
	}
	return r.show(ctx, lease, shard)
}

// show writes the state label, and whether the shard has peers that it cannot see.
func (r *Reconciler) show(ctx context.Context, lease *coordinationv1.Lease, shard members.Shard) error {
	before, state := membership.State(lease.Labels[shardingv1alpha1.LabelState]), shard.State
	_, elsewhere := lease.Annotations[shardingv1alpha1.AnnotationPeersElsewhere]
	if before == state && elsewhere == shard.PeersElsewhere {
		return nil
	}
	changed := lease.DeepCopy()
	changed.Labels[shardingv1alpha1.LabelState] = string(state)
	if delete(changed.Annotations, shardingv1alpha1.AnnotationPeersElsewhere); shard.PeersElsewhere {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, shardingv1alpha1.AnnotationPeersElsewhere, "true")
	}
	if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(lease, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	if before != state {
		r.tell(ctx, lease, before, state, shown(lease, before, state))
	}
	return nil
}

// takeOver makes the shard dead, unless it renews first: then the write conflicts. The state is shown, or
// none.
func (r *Reconciler) takeOver(ctx context.Context, lease *coordinationv1.Lease, shown membership.State) error {
	changed := lease.DeepCopy()
	now := metav1.NewMicroTime(r.Clock.Now())
	holder := shardingv1alpha1.IdentityShardLeaseController
	seconds := int32(min(2*duration(lease), membership.MaxDuration) / time.Second) //nolint:gosec // it fits
	transitions := int32(1)
	if lease.Spec.LeaseTransitions != nil {
		transitions += *lease.Spec.LeaseTransitions
	}
	changed.Spec.HolderIdentity = &holder
	changed.Spec.LeaseDurationSeconds = &seconds
	changed.Spec.LeaseTransitions = &transitions
	changed.Spec.AcquireTime, changed.Spec.RenewTime = &now, &now
	if delete(changed.Labels, shardingv1alpha1.LabelState); shown != "" {
		changed.Labels[shardingv1alpha1.LabelState] = string(shown)
	}
	// Not an update: the cache does not have all of the Lease.
	if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(lease, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	r.Shards.Observe(changed) // its objects need not wait for the watch
	return nil
}

// remove deletes the Lease of a shard that is long dead, this very one.
func (r *Reconciler) remove(ctx context.Context, lease *coordinationv1.Lease) error {
	err := r.Client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
	if err == nil {
		before := membership.State(lease.Labels[shardingv1alpha1.LabelState])
		r.tell(ctx, lease, before, membership.Orphaned, forgotten)
	}
	return client.IgnoreNotFound(err)
}

// tell lets people know what became of a shard.
func (r *Reconciler) tell(ctx context.Context, lease *coordinationv1.Lease, from, to membership.State, what news) {
	ring := lease.Labels[shardingv1alpha1.LabelControllerRing]
	r.Transition(ring, from, to)
	logf.FromContext(ctx).Info("Shard changed its state", "controllerRing", ring, "from", from, "to", to)
	r.Events.Eventf(lease, nil, what.kind, what.reason, "Membership", "%s", what.note)
}

// tellCordoned lets people know once that a shard gets no new objects, and why.
func (r *Reconciler) tellCordoned(lease *coordinationv1.Lease, shard members.Shard) {
	key := client.ObjectKeyFromObject(lease)
	if !shard.Cordoned {
		r.cordoned.Delete(key)
		return
	}
	if _, told := r.cordoned.Swap(key, true); !told {
		r.Events.Eventf(lease, nil, excluded.kind, excluded.reason, "Membership", excluded.note,
			lease.Labels[shardingv1alpha1.LabelControllerRing], lease.Namespace)
	}
}
