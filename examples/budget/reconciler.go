package main

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// reconciler keeps the PodDisruptionBudget of a Deployment. Nothing in it knows of shards: it is shown
// the Deployments of its shard, and their budgets.
type reconciler struct{ client.Client }

func (r *reconciler) addTo(mgr *shard.Manager) error {
	return shard.ControllerManagedBy(mgr).
		// The status of a Deployment changes with each of its pods, which is no business of ours.
		For(&appsv1.Deployment{}, shard.Sharded{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&policyv1.PodDisruptionBudget{}, shard.Sharded{}).
		Complete(r)
}

// Reconcile makes the budget what it should be.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	deployment := &appsv1.Deployment{}
	if err := r.Get(ctx, request.NamespacedName, deployment); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if deployment.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // its budget goes with it
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}}
	_, err := ctrl.CreateOrUpdate(ctx, r.Client, budget, func() error {
		if budget.UID != "" && !metav1.IsControlledBy(budget, deployment) {
			return errForeign
		}
		one := intstr.FromInt32(1)
		budget.Spec = policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: deployment.Spec.Selector}
		return ctrl.SetControllerReference(deployment, budget, r.Scheme())
	})
	if apierrors.IsAlreadyExists(err) {
		// It was not in the cache, which has what this shard owns.
		err = fmt.Errorf("%w, or that is on its way from another shard: %w", errForeign, err)
	}
	return reconcile.Result{}, err
}

// errForeign is returned when somebody else's budget is in the way. It is left alone: whoever made it
// may want something else.
var errForeign = errors.New("there is a PodDisruptionBudget of this name that the Deployment does not control")
