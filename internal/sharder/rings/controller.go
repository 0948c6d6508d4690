package rings

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"github.com/ringmaster-project/ringmaster/internal/sharder/rivals"
)

// Movers moves the objects of rings, and knows how that goes.
type Movers interface {
	Ensure(ring string, uid types.UID, generation int64, resources int)
	Stop(ring string)
	Progress(ring string) moves.Progress
}

// Reconciler keeps ControllerRings true. One replica of the sharder runs it.
type Reconciler struct {
	Client client.Client
	// Learn makes a ring known to this process. With an UnknownResourceError, a part of it is.
	Learn  func(context.Context, *shardingv1alpha1.ControllerRing) (*catalog.Ring, error)
	Shards func(ring string) []members.Shard
	// Rival is who else is the sharder of a ring, or nil.
	Rival  func(ring string) *rivals.Rival
	Movers Movers
	Events events.EventRecorder
	Clock  clock.PassiveClock
	Config configv1alpha1.WebhookConfig
	// Authority is what vouches for the webhook's certificate, or nothing if something else tells
	// the API server.
	Authority func() []byte
}

const (
	// unwell is how soon to look again at what others may have mended: a missing CRD or permission.
	unwell = 5 * time.Second
	// draining is how soon to tell again how old the oldest drain is.
	draining = 10 * time.Second
	// fieldManager is the name under which the API server notes our writes.
	fieldManager = "sharder"
)

// verbs are what the sharder does with the objects of a ring.
var verbs = []string{"get", "list", "patch"}

// Reconcile makes a ring work and says how it is doing.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := r.reconcile(ctx, request)
	if ctx.Err() != nil {
		// This process ends, and what it could not write is no failure: the next one looks at all rings.
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
		return reconcile.Result{}, r.removeWebhook(ctx, request.Name)
	case err != nil:
		return reconcile.Result{}, err
	}
	facts, err := r.establish(ctx, ring)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.report(ctx, ring, facts); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status: %w", err)
	}
	switch {
	case facts.Webhook != nil:
		return reconcile.Result{}, facts.Webhook
	case len(facts.Unknown) > 0 || len(facts.Missing) > 0:
		return reconcile.Result{RequeueAfter: unwell}, nil
	case facts.Drains.Outstanding > 0:
		return reconcile.Result{RequeueAfter: draining}, nil
	case facts.Rival != nil: // it may die without a word
		return reconcile.Result{RequeueAfter: max(facts.Rival.Until.Sub(r.Clock.Now()), time.Second)}, nil
	}
	return reconcile.Result{}, nil
}

// establish does all that the ring needs, and finds out how it is doing.
func (r *Reconciler) establish(ctx context.Context, ring *shardingv1alpha1.ControllerRing) (*Facts, error) {
	facts := &Facts{}
	known, err := r.Learn(ctx, ring)
	var unknown *catalog.UnknownResourceError
	switch {
	case errors.As(err, &unknown):
		facts.Unknown = unknown.Resources
	case err != nil:
		return nil, err
	}
	if facts.Missing, err = r.missing(ctx, known); err != nil {
		return nil, err
	}
	applied := webhookConfiguration(ring, r.Config, r.Authority())
	facts.Webhook = r.Client.Apply(ctx, applied, client.FieldOwner(fieldManager), client.ForceOwnership)
	r.Movers.Ensure(ring.Name, ring.UID, ring.Generation, len(known.Resources))
	facts.Shards, facts.Rival = r.Shards(ring.Name), r.Rival(ring.Name)
	facts.Progress = r.Movers.Progress(ring.Name)
	return facts, nil
}

// removeWebhook deletes the webhook configuration of a ring that is gone, so that API servers no longer
// ask about its objects. The garbage collector would too, where there is one and when it gets to it.
func (r *Reconciler) removeWebhook(ctx context.Context, ring string) error {
	found := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: shardingv1alpha1.WebhookConfigurationName(ring)}, found); err != nil {
		return client.IgnoreNotFound(err)
	}
	owner := metav1.GetControllerOf(found)
	if owner == nil || owner.Kind != "ControllerRing" || owner.Name != ring {
		return nil // somebody else's, in spite of its name
	}
	err := r.Client.Delete(ctx, found, client.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion})
	if apierrors.IsConflict(err) {
		return nil // it has changed, maybe for a new ring of that name, and comes again because of that
	}
	return client.IgnoreNotFound(err)
}

// missing asks the API server what the sharder may not do with the ring's objects.
func (r *Reconciler) missing(ctx context.Context, known *catalog.Ring) ([]MissingRule, error) {
	var rules []MissingRule
	for i := range known.Resources {
		resource := known.Resources[i].Resource.GroupResource()
		var denied []string
		for _, verb := range verbs {
			allowed, err := r.allowed(ctx, resource, verb)
			if err != nil {
				return nil, fmt.Errorf("asking for permissions: %w", err)
			}
			if !allowed {
				denied = append(denied, verb)
			}
		}
		if len(denied) > 0 {
			rules = append(rules, MissingRule{Resource: resource, Verbs: denied})
		}
	}
	return rules, nil
}

func (r *Reconciler) allowed(ctx context.Context, resource schema.GroupResource, verb string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: resource.Group, Resource: resource.Resource, Verb: verb},
	}}
	if err := r.Client.Create(ctx, review); err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// report writes the status if it has changed, and tells people when a condition does.
func (r *Reconciler) report(ctx context.Context, ring *shardingv1alpha1.ControllerRing, facts *Facts) error {
	before := ring.DeepCopy()
	setStatus(ring, facts, r.Clock.Now())
	if equality.Semantic.DeepEqual(before.Status, ring.Status) {
		return nil
	}
	err := r.Client.Status().Patch(ctx, ring, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return nil // it has changed, and comes again because of that
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.tell(ctx, before, ring, facts)
	return nil
}

func (r *Reconciler) tell(ctx context.Context, before, after *shardingv1alpha1.ControllerRing, facts *Facts) {
	for _, now := range after.Status.Conditions {
		was := meta.FindStatusCondition(before.Status.Conditions, now.Type)
		again := now.Type == shardingv1alpha1.ConditionAssigned && now.Reason == shardingv1alpha1.ReasonNoShards ||
			now.Type == shardingv1alpha1.ConditionSole && was == nil && now.Status == metav1.ConditionTrue // as it should be
		if was != nil && was.Reason == now.Reason || now.Status == metav1.ConditionUnknown || again {
			continue
		}
		kind := corev1.EventTypeNormal
		if now.Status != metav1.ConditionTrue && now.Reason != shardingv1alpha1.ReasonDraining {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(after, nil, kind, now.Reason, "Reconcile", "%s", now.Message)
		if now.Type == shardingv1alpha1.ConditionDrained && kind == corev1.EventTypeWarning {
			r.tellShard(ctx, after, facts, now)
		}
	}
}

// tellShard tells those who look at a shard, and not at its ring, that it does not let go.
func (r *Reconciler) tellShard(ctx context.Context, ring *shardingv1alpha1.ControllerRing, facts *Facts, condition metav1.Condition) {
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
