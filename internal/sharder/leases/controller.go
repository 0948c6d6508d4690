// Package leases acts on the Leases of shards: it shows their states in a label and in events, takes over
// the Lease of a shard that has stopped renewing, and deletes the Leases of shards that have been dead for long.
//
// It promises that a Lease is taken over only with a write that proves that the API server works and
// that the shard has not renewed meanwhile. A shard whose Lease is taken over stops.
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

// Shards returns the states of shards.
type Shards interface {
	Observe(lease *coordinationv1.Lease)
	Shard(lease client.ObjectKey) (members.Shard, bool)
	// Refusal returns why the ring does not accept a Lease.
	Refusal(lease client.ObjectKey) members.Refusal
	// Incumbent returns the namespace of the Lease that keeps this one of the same name from being a shard.
	Incumbent(lease client.ObjectKey) (namespace string, found bool)
}

// Reconciler acts on Leases. The leader runs it.
type Reconciler struct {
	Client client.Client
	Shards Shards
	// Ring returns a ring, or nil if it does not exist.
	Ring func(ctx context.Context, name string) (*shardingv1alpha1.ControllerRing, error)
	// OtherSharderActive reports whether a ring has an active in-process sharder. That one shows the states of
	// shards which are not members here.
	OtherSharderActive func(ring string) bool

	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Transition is called for each change of a shard's state label.
	Transition func(ring string, from, to membership.State)

	// refused has the reason for each refused Lease, by its key, so that it is reported once.
	refused sync.Map
	// cordoned has the keys of the Leases of cordoned shards, for the same reason.
	cordoned sync.Map
}

// expiredRecheckInterval is the time between two checks of an expired shard. The renewal of another shard can
// shorten its grace period, and does not cause a reconcile of this one.
const expiredRecheckInterval = 250 * time.Millisecond

// Reconcile shows the state of a shard on its Lease, and acts on it.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := r.reconcile(ctx, request)
	if ctx.Err() != nil {
		// Failed writes do not matter while the process stops: the next leader reconciles all Leases. The Lease of
		// this process, if it is a shard too, was released shortly before.
		result, err = reconcile.Result{}, nil
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	lease := &coordinationv1.Lease{} // not a copy: it is not modified
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
	r.recordCordoned(lease, shard)
	if err := r.act(ctx, lease, shard); err != nil {
		if apierrors.IsConflict(err) {
			// The Lease was written meanwhile, most likely by its shard. A mere renewal causes no reconcile.
			return reconcile.Result{RequeueAfter: expiredRecheckInterval}, nil
		}
		return reconcile.Result{}, fmt.Errorf("acting on a shard that is %s: %w", shard.State, err)
	}
	return r.requeueAt(shard), nil
}

// requeueAt requeues a Lease for the time at which its state may change by itself.
func (r *Reconciler) requeueAt(shard members.Shard) reconcile.Result {
	if shard.RecheckAt.IsZero() {
		return reconcile.Result{}
	}
	wait := max(shard.RecheckAt.Sub(r.Clock.Now()), time.Millisecond)
	if shard.State == membership.Expired {
		wait = min(wait, expiredRecheckInterval)
	}
	return reconcile.Result{RequeueAfter: wait}
}

// act takes the Lease over, deletes it or shows its state.
func (r *Reconciler) act(ctx context.Context, lease *coordinationv1.Lease, shard members.Shard) error {
	switch shard.State {
	case membership.Uncertain:
		if err := r.takeOver(ctx, lease, membership.Dead); err != nil {
			return err
		}
		r.recordTransition(ctx, lease, membership.Uncertain, membership.Dead, shardDead(lease))
		return nil
	case membership.Orphaned:
		return r.remove(ctx, lease)
	case membership.Ready, membership.Expired, membership.Dead:
	}
	return r.show(ctx, lease, shard)
}

// show writes the state label, and the annotation about peers in other namespaces.
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
		r.recordTransition(ctx, lease, before, state, stateEvent(lease, before, state))
	}
	return nil
}

// takeOver acquires the Lease of a shard. The write conflicts if the shard renews first. An empty state removes
// the state label.
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
	// A patch, because the cached Lease is incomplete.
	if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(lease, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	r.Shards.Observe(changed) // so that its objects do not wait for the watch event
	return nil
}

// remove deletes the Lease of a shard that has been dead for long.
func (r *Reconciler) remove(ctx context.Context, lease *coordinationv1.Lease) error {
	err := r.Client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
	if err == nil {
		before := membership.State(lease.Labels[shardingv1alpha1.LabelState])
		r.recordTransition(ctx, lease, before, membership.Orphaned, shardForgotten)
	}
	return client.IgnoreNotFound(err)
}

// recordTransition reports a change of a shard's state as a metric, a log message and an event.
func (r *Reconciler) recordTransition(ctx context.Context, lease *coordinationv1.Lease, from, to membership.State, event shardEvent) {
	ring := lease.Labels[shardingv1alpha1.LabelControllerRing]
	r.Transition(ring, from, to)
	logf.FromContext(ctx).Info("Shard changed its state", "controllerRing", ring, "from", from, "to", to)
	r.Events.Eventf(lease, nil, event.eventType, event.reason, "Membership", "%s", event.note)
}

// recordCordoned emits an event when a shard is cordoned.
func (r *Reconciler) recordCordoned(lease *coordinationv1.Lease, shard members.Shard) {
	key := client.ObjectKeyFromObject(lease)
	if !shard.Cordoned {
		r.cordoned.Delete(key)
		return
	}
	if _, reported := r.cordoned.Swap(key, true); !reported {
		r.Events.Eventf(lease, nil, shardCordoned.eventType, shardCordoned.reason, "Membership", shardCordoned.note,
			lease.Labels[shardingv1alpha1.LabelControllerRing], lease.Namespace)
	}
}
