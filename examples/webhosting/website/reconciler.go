package website

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

// reconciler reconciles Websites. It reads copies from caches, and keeps no state between calls.
type reconciler struct {
	client.Client
	live            client.Reader // bypasses the cache
	events          events.EventRecorder
	clock           clock.PassiveClock
	image           string
	workTime        time.Duration
	recheckInterval time.Duration
}

// conflictRetryDelay is how long to wait after a conflict until the cache has the latest version.
const conflictRetryDelay = 50 * time.Millisecond

// Reconcile brings the children of a Website to their desired state, and updates its status.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	// Tests read from these two lines which instance reconciled which object when.
	log := logf.FromContext(ctx).WithValues("id", controller.ReconcileIDFromContext(ctx))
	log.V(1).Info("Reconcile begins")
	defer log.V(1).Info("Reconcile ends")

	if err := r.simulateWork(ctx); err != nil {
		return reconcile.Result{}, err
	}
	website := &webhostingv1alpha1.Website{}
	if err := r.Get(ctx, request.NamespacedName, website); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // the garbage collector deletes its children
	}
	found, err := r.reconcileWebsite(ctx, website)
	if found != nil {
		err = errors.Join(err, r.updateStatus(ctx, website, *found))
	}
	switch {
	case apierrors.IsConflict(err):
		// The cache is stale, maybe because of our own last write. A conflict is not a failure.
		return reconcile.Result{RequeueAfter: conflictRetryDelay}, nil
	case err == nil && (found.reason == webhostingv1alpha1.ReasonNameTaken || found.reason == webhostingv1alpha1.ReasonReplacing):
		return reconcile.Result{RequeueAfter: r.recheckInterval}, nil
	}
	return reconcile.Result{}, err
}

// simulateWork waits as long as a call of a remote API would take. It is used in experiments.
func (r *reconciler) simulateWork(ctx context.Context) error {
	if r.workTime == 0 {
		return nil
	}
	select {
	case <-time.After(r.workTime):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reconcileWebsite reconciles the children of a Website. The result describes problems that a user
// has to solve; an error is retried. If the result is nil, the status stays as it is.
func (r *reconciler) reconcileWebsite(ctx context.Context, website *webhostingv1alpha1.Website) (*result, error) {
	if website.DeletionTimestamp != nil {
		return new(terminating()), nil
	}
	if err := website.Spec.Validate(); err != nil {
		return new(failed(webhostingv1alpha1.ReasonInvalidSpec, err.Error())), nil
	}
	theme := &webhostingv1alpha1.Theme{}
	err := r.Get(ctx, client.ObjectKey{Name: website.Spec.Theme}, theme)
	if apierrors.IsNotFound(err) {
		missing := fmt.Sprintf("Theme %s not found.", website.Spec.Theme)
		return new(failed(webhostingv1alpha1.ReasonThemeNotFound, missing).withTheme(webhostingv1alpha1.ReasonThemeNotFound)), nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the Theme: %w", err)
	}
	shown, err := newPage(website, theme)
	if err != nil {
		wrong := fmt.Sprintf("Theme %s is invalid: %v", theme.Name, err)
		return new(failed(webhostingv1alpha1.ReasonThemeInvalid, wrong).withTheme(webhostingv1alpha1.ReasonThemeInvalid)), nil
	}
	html, err := shown.render()
	if err != nil {
		return nil, err
	}
	found, err := r.ensureAll(ctx, site{website: website, html: html, image: r.image})
	if found != nil {
		found = new(found.withTheme(webhostingv1alpha1.ReasonThemeFound))
	}
	return found, err
}

// ensureAll brings all children of a Website to their desired state.
func (r *reconciler) ensureAll(ctx context.Context, s site) (*result, error) {
	var (
		workload *appsv1.Deployment
		taken    *nameTakenError
		deleting *terminatingError
	)
	for _, c := range s.children() {
		object, err := r.ensure(ctx, s.website, c)
		switch {
		case errors.As(err, &taken):
			return new(failed(webhostingv1alpha1.ReasonNameTaken, taken.Error())), nil
		case errors.As(err, &deleting):
			return new(pending(webhostingv1alpha1.ReasonReplacing, deleting.Error())), nil
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return new(terminating()), nil // the namespace is being deleted
		case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
			// A quota or a policy. Report it, and retry, because no event announces that it has
			// changed.
			return new(failed(webhostingv1alpha1.ReasonRefused, err.Error())), err
		case err != nil:
			return nil, err
		}
		if deployment, ok := object.(*appsv1.Deployment); ok {
			workload = deployment
		}
	}
	return new(workloadResult(workload)), nil
}

// updateStatus writes the status if it has changed, with the resourceVersion that was read as its
// precondition.
func (r *reconciler) updateStatus(ctx context.Context, website *webhostingv1alpha1.Website, found result) error {
	before := website.DeepCopy()
	website.Status = nextStatus(website, found, r.clock.Now())
	if equality.Semantic.DeepEqual(before.Status, website.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Status().Patch(ctx, website, patch, fieldManager); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // it was deleted in the meantime
		}
		return fmt.Errorf("writing the status: %w", err)
	}
	r.recordEvent(website, before.Status.Phase, found)
	return nil
}

// recordEvent emits an event when a Website starts to fail, and when it recovers.
func (r *reconciler) recordEvent(website *webhostingv1alpha1.Website, before webhostingv1alpha1.Phase, found result) {
	const action = "Serve"
	switch failing := found.phase == webhostingv1alpha1.PhaseError; {
	case failing && before != webhostingv1alpha1.PhaseError:
		r.events.Eventf(website, nil, corev1.EventTypeWarning, found.reason, action, "%s", found.message)
	case !failing && before == webhostingv1alpha1.PhaseError:
		r.events.Eventf(website, nil, corev1.EventTypeNormal, found.reason, action, "%s", found.message)
	}
}
