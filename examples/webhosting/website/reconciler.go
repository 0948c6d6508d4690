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

// reconciler makes a page of a Website. It reads from caches, which give it copies, and keeps nothing
// between two calls: what it has to know is in the API server.
type reconciler struct {
	client.Client
	live      client.Reader // asks the API server itself
	events    events.EventRecorder
	clock     clock.PassiveClock
	image     string
	workTime  time.Duration
	lookAgain time.Duration
}

// catchUp is how long the cache may take to see what was written last.
const catchUp = 50 * time.Millisecond

// Reconcile makes what belongs to a Website what it should be, and says how it goes.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	// Tests read from these two lines who worked on what when.
	log := logf.FromContext(ctx).WithValues("id", controller.ReconcileIDFromContext(ctx))
	log.V(1).Info("Reconcile begins")
	defer log.V(1).Info("Reconcile ends")

	if err := r.askFarAway(ctx); err != nil {
		return reconcile.Result{}, err
	}
	website := &webhostingv1alpha1.Website{}
	if err := r.Get(ctx, request.NamespacedName, website); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // what belongs to it goes with it
	}
	found, err := r.pursue(ctx, website)
	if found != nil {
		err = errors.Join(err, r.report(ctx, website, *found))
	}
	switch {
	case apierrors.IsConflict(err):
		// The cache has not seen yet what was written last, maybe by us. That is no failure.
		return reconcile.Result{RequeueAfter: catchUp}, nil
	case err == nil && (found.reason == webhostingv1alpha1.ReasonNameTaken || found.reason == webhostingv1alpha1.ReasonReplacing):
		return reconcile.Result{RequeueAfter: r.lookAgain}, nil
	}
	return reconcile.Result{}, err
}

// askFarAway waits as long as an API far away would take. Most operators have one; this one has it only in experiments.
func (r *reconciler) askFarAway(ctx context.Context) error {
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

// pursue does what can be done for a Website, and judges how it is doing. What somebody has to change is
// in the verdict; an error is for what can be tried again. If there is no verdict, nothing is known that
// was not known before.
func (r *reconciler) pursue(ctx context.Context, website *webhostingv1alpha1.Website) (*verdict, error) {
	if website.DeletionTimestamp != nil {
		return new(terminating()), nil
	}
	if err := website.Spec.Validate(); err != nil {
		return new(failed(webhostingv1alpha1.ReasonInvalidSpec, err.Error())), nil
	}
	theme := &webhostingv1alpha1.Theme{}
	err := r.Get(ctx, client.ObjectKey{Name: website.Spec.Theme}, theme)
	if apierrors.IsNotFound(err) {
		missing := fmt.Sprintf("There is no Theme %s.", website.Spec.Theme)
		return new(failed(webhostingv1alpha1.ReasonThemeNotFound, missing).withTheme(webhostingv1alpha1.ReasonThemeNotFound)), nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the Theme: %w", err)
	}
	shown, err := newPage(website, theme)
	if err != nil {
		wrong := fmt.Sprintf("The Theme %s cannot be used: %v", theme.Name, err)
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

// ensureAll makes all objects of a Website what they should be.
func (r *reconciler) ensureAll(ctx context.Context, s site) (*verdict, error) {
	var (
		workload *appsv1.Deployment
		taken    *takenError
		going    *goingError
	)
	for _, c := range s.children() {
		is, err := r.ensure(ctx, s.website, c)
		switch {
		case errors.As(err, &taken):
			return new(failed(webhostingv1alpha1.ReasonNameTaken, taken.Error())), nil
		case errors.As(err, &going):
			return new(pending(webhostingv1alpha1.ReasonReplacing, going.Error())), nil
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return new(terminating()), nil // the Website goes with its namespace
		case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
			// A quota, or a policy. People have to know, and it is tried again: nobody tells when it has changed.
			return new(failed(webhostingv1alpha1.ReasonRefused, err.Error())), err
		case err != nil:
			return nil, err
		}
		if deployment, is := is.(*appsv1.Deployment); is {
			workload = deployment
		}
	}
	return new(judge(workload)), nil
}

// report writes the status, once and only if it has changed, and on the very version that was looked at.
func (r *reconciler) report(ctx context.Context, website *webhostingv1alpha1.Website, found verdict) error {
	before := website.DeepCopy()
	website.Status = next(website, found, r.clock.Now())
	if equality.Semantic.DeepEqual(before.Status, website.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Status().Patch(ctx, website, patch, fieldManager); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // it has just been deleted
		}
		return fmt.Errorf("writing the status: %w", err)
	}
	r.tell(website, before.Status.Phase, found)
	return nil
}

// tell makes an event of what people should not miss: that something went wrong, and that it is over.
func (r *reconciler) tell(website *webhostingv1alpha1.Website, before webhostingv1alpha1.Phase, found verdict) {
	const action = "Serve"
	switch failing := found.phase == webhostingv1alpha1.PhaseError; {
	case failing && before != webhostingv1alpha1.PhaseError:
		r.events.Eventf(website, nil, corev1.EventTypeWarning, found.reason, action, "%s", found.message)
	case !failing && before == webhostingv1alpha1.PhaseError:
		r.events.Eventf(website, nil, corev1.EventTypeNormal, found.reason, action, "%s", found.message)
	}
}
