// Package rings reconciles ControllerRings: it installs the webhook configuration, starts the mover, and reports
// in the status what is wrong and what to do about it.
package rings

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
	"github.com/ringmaster-project/ringmaster/internal/sharder/othersharders"
)

// Movers moves the objects of rings and reports the progress. It is implemented by moves.Group.
type Movers interface {
	Ensure(ring string, uid types.UID, generation int64, resources int)
	Stop(ring string)
	Progress(ring string) moves.Progress
}

// Reconciler reconciles ControllerRings. The leader runs it.
type Reconciler struct {
	Client client.Client
	// Learn resolves a ring for this process. With an UnknownResourceError, it returns the known resources as well.
	Learn  func(context.Context, *shardingv1alpha1.ControllerRing) (*catalog.Ring, error)
	Shards func(ring string) []members.Shard
	// Namespaces returns the namespaces whose shards are members of a ring.
	Namespaces func(ring string) []string
	// OtherSharder returns the active in-process sharder of a ring, or nil.
	OtherSharder func(ring string) *othersharders.Sharder
	// ForeignSharder returns one in a namespace from which the ring accepts no shards, or nil. It is ignored.
	ForeignSharder func(ring string) *othersharders.Sharder
	Movers         Movers
	Events         events.EventRecorder
	Clock          clock.PassiveClock
	Config         configv1alpha1.WebhookConfig
	// Authority returns the CA bundle of the webhook's certificate, or nil if the sharder does not manage it.
	Authority func() []byte

	// Reader reads policies, without a cache.
	Reader client.Reader

	permissions permissions
	fences      fences
}

const (
	// retryUnknownResourceAfter is the delay until a resource that the API server did not serve is looked up again.
	retryUnknownResourceAfter = 5 * time.Second
	// retryConflictAfter is the delay of a retry after a conflict on the status.
	retryConflictAfter = time.Second
	// refreshDrainsAfter is how often the age of the oldest drain is updated in the status.
	refreshDrainsAfter = 10 * time.Second
	// fieldManager is the field manager of the sharder's writes.
	fieldManager = "sharder"
)

// Reconcile brings a ring into service and updates its status.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := r.reconcile(ctx, request)
	if ctx.Err() != nil {
		// Failed writes do not matter while the process stops: the next leader reconciles all rings.
		result, err = reconcile.Result{}, nil
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ring := &shardingv1alpha1.ControllerRing{}
	err := r.Client.Get(ctx, request.NamespacedName, ring)
	switch {
	case apierrors.IsNotFound(err) || err == nil && ring.DeletionTimestamp != nil:
		r.Movers.Stop(request.Name)
		r.permissions.forget(request.Name)
		r.fences.forget(request.Name)
		return reconcile.Result{}, r.removeWebhook(ctx, request.Name)
	case err != nil:
		return reconcile.Result{}, err
	}
	facts, err := r.gatherFacts(ctx, ring)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch err := r.report(ctx, ring, facts); {
	case apierrors.IsConflict(err):
		// The cache was outdated. A predicate filters status updates, so no event may follow.
		return reconcile.Result{RequeueAfter: retryConflictAfter}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("writing the status: %w", err)
	case facts.Webhook != nil:
		return reconcile.Result{}, facts.Webhook
	}
	return reconcile.Result{RequeueAfter: facts.refreshAfter(r.Clock.Now())}, nil
}

// gatherFacts installs the webhook, starts the mover, and gathers the facts for the status.
func (r *Reconciler) gatherFacts(ctx context.Context, ring *shardingv1alpha1.ControllerRing) (*Facts, error) {
	facts := &Facts{}
	known, err := r.Learn(ctx, ring)
	var unknown *catalog.UnknownResourceError
	switch {
	case errors.As(err, &unknown):
		facts.Unknown, facts.Protected = unknown.Resources, unknown.Protected
	case err != nil:
		return nil, err
	}
	facts.Progress = r.Movers.Progress(ring.Name)
	facts.Missing, facts.RecheckPermissionsAt, err = r.permissions.missing(ctx, r.Client, ring, known, isForbidden(facts.Err), r.Clock.Now())
	if err != nil {
		return nil, err
	}
	usable := permitted(known, facts.Missing)
	facts.Webhook = r.installWebhook(ctx, ring, usable)
	r.Movers.Ensure(ring.Name, ring.UID, ring.Generation, len(usable))
	facts.Shards, facts.Namespaces, facts.OtherSharder = r.Shards(ring.Name), r.Namespaces(ring.Name), r.OtherSharder(ring.Name)
	facts.ForeignSharder = r.ForeignSharder(ring.Name)
	rings := &shardingv1alpha1.ControllerRingList{}
	if err := r.Client.List(ctx, rings, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing rings: %w", err)
	}
	facts.Fence, facts.RecheckFenceAt = r.fences.find(ctx, r.Reader, r.Client, ring, r.Clock.Now())
	facts.Shared = sharedResources(known, rings.Items, r.Config.NamespaceSelector)
	return facts, nil
}

// installWebhook writes the webhook configuration of a ring. A ring without usable resources has none, because it
// would only delay the requests of users.
func (r *Reconciler) installWebhook(ctx context.Context, ring *shardingv1alpha1.ControllerRing, resources []catalog.Resource) error {
	if len(resources) == 0 {
		return r.removeWebhook(ctx, ring.Name)
	}
	applied := webhookConfiguration(ring, resources, r.Config, r.Authority())
	return r.Client.Apply(ctx, applied, client.FieldOwner(fieldManager), client.ForceOwnership)
}

// removeWebhook deletes the webhook configuration of a ring that was deleted or has no usable resources, so that API
// servers no longer call it. The garbage collector would delete that of a deleted ring later.
func (r *Reconciler) removeWebhook(ctx context.Context, ring string) error {
	found := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: shardingv1alpha1.WebhookConfigurationName(ring)}, found); err != nil {
		return client.IgnoreNotFound(err)
	}
	owner := metav1.GetControllerOf(found)
	if owner == nil || owner.Kind != "ControllerRing" || owner.Name != ring {
		return nil // it has the name, but does not belong to the ring
	}
	err := r.Client.Delete(ctx, found, client.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion})
	if apierrors.IsConflict(err) {
		return nil // it has changed, maybe for a new ring of that name, which causes another reconcile
	}
	return client.IgnoreNotFound(err)
}

// report writes the status if it has changed, and emits events for changed conditions.
func (r *Reconciler) report(ctx context.Context, ring *shardingv1alpha1.ControllerRing, facts *Facts) error {
	before := ring.DeepCopy()
	setStatus(ring, facts, r.Clock.Now())
	if equality.Semantic.DeepEqual(before.Status, ring.Status) {
		return nil
	}
	err := r.Client.Status().Patch(ctx, ring, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.emitEvents(ctx, before, ring, facts)
	return nil
}

func (r *Reconciler) emitEvents(ctx context.Context, before, after *shardingv1alpha1.ControllerRing, facts *Facts) {
	for _, now := range after.Status.Conditions {
		was := meta.FindStatusCondition(before.Status.Conditions, now.Type)
		redundant := now.Type == shardingv1alpha1.ConditionAssigned && now.Reason == shardingv1alpha1.ReasonNoShards || // Ready says so
			now.Type == shardingv1alpha1.ConditionSole && was == nil && now.Status == metav1.ConditionTrue || // the normal case
			now.Type == shardingv1alpha1.ConditionFenced && now.Reason != shardingv1alpha1.ReasonOpenRing && (was == nil || was.Status != metav1.ConditionTrue && now.Status != metav1.ConditionTrue) // policies are optional
		if was != nil && was.Reason == now.Reason || now.Status == metav1.ConditionUnknown || redundant {
			continue
		}
		kind := corev1.EventTypeNormal
		if now.Status != metav1.ConditionTrue && now.Reason != shardingv1alpha1.ReasonDraining && now.Reason != shardingv1alpha1.ReasonSharedResource {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(after, nil, kind, now.Reason, "Reconcile", "%s", now.Message)
		if now.Type == shardingv1alpha1.ConditionDrained && kind == corev1.EventTypeWarning {
			r.emitShardEvent(ctx, after, facts, now)
		}
	}
}

// emitShardEvent emits the event on the Lease of the shard that does not release objects as well.
func (r *Reconciler) emitShardEvent(ctx context.Context, ring *shardingv1alpha1.ControllerRing, facts *Facts, condition metav1.Condition) {
	for _, shard := range facts.Shards {
		if shard.Name != facts.Drains.Shard {
			continue
		}
		lease := &coordinationv1.Lease{}
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: shard.Namespace, Name: shard.Name}, lease); err == nil {
			r.Events.Eventf(lease, ring, corev1.EventTypeWarning, condition.Reason, "Drain", "%s", condition.Message)
		}
	}
}
