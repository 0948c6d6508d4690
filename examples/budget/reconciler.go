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

// reconciler maintains the PodDisruptionBudget of a Deployment. It does not depend on sharding: its
// client and watches return only the objects of its shard.
type reconciler struct{ client.Client }

func (r *reconciler) addTo(mgr *shard.Manager) error {
	return shard.ControllerManagedBy(mgr).
		// Ignore the status of the Deployment, which changes with each of its pods.
		For(&appsv1.Deployment{}, shard.Sharded{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&policyv1.PodDisruptionBudget{}, shard.Sharded{}).
		Complete(r)
}

// Reconcile brings the budget to its desired state.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	deployment := &appsv1.Deployment{}
	if err := r.Get(ctx, request.NamespacedName, deployment); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if deployment.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // the garbage collector deletes its budget
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}}
	_, err := ctrl.CreateOrUpdate(ctx, r.Client, budget, func() error {
		if budget.UID != "" && !metav1.IsControlledBy(budget, deployment) {
			return errNameTaken
		}
		one := intstr.FromInt32(1)
		budget.Spec = policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: deployment.Spec.Selector}
		return ctrl.SetControllerReference(deployment, budget, r.Scheme())
	})
	if apierrors.IsAlreadyExists(err) {
		// The budget is not in the cache, which has only the objects of this shard.
		err = fmt.Errorf("%w, or it is moving from another shard: %w", errNameTaken, err)
	}
	return reconcile.Result{}, err
}

// errNameTaken is returned if a budget of another owner has the name. It is not changed.
var errNameTaken = errors.New("a PodDisruptionBudget of this name exists that the Deployment does not control: delete or rename it")
