package main

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// fieldManager is the name under which the API server notes our writes.
const fieldManager = "plain"

// errForeign is returned when somebody else's budget is in the way. It is not adopted (guideline 12):
// whoever made it may want something else.
var errForeign = errors.New("there is a PodDisruptionBudget of this name that the Deployment does not control")

// ensureBudget makes the budget of a Deployment what it should be. It has nothing to say in the
// Deployment's status, which is its own controller's (guideline 11).
func (c *controller) ensureBudget(ctx context.Context, deployment *appsv1.Deployment) error {
	wanted := c.budget(deployment)
	write := c.client.PolicyV1().PodDisruptionBudgets(wanted.Namespace)
	current, err := c.budgets.PodDisruptionBudgets(wanted.Namespace).Get(wanted.Name)
	switch {
	case apierrors.IsNotFound(err):
		_, err = write.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) {
			// It was not in the cache, which has what this shard owns.
			return fmt.Errorf("%w, or that is on its way from another shard: %w", errForeign, err)
		}
		return err
	case err != nil:
		return err
	case !metav1.IsControlledBy(current, deployment):
		return errForeign
	case current.DeletionTimestamp != nil || equality.Semantic.DeepEqual(current.Spec, wanted.Spec):
		return nil // when it has gone, there is an event
	}
	changed := current.DeepCopy() // what the cache has belongs to all (guideline 5)
	changed.Spec = wanted.Spec
	// Its resourceVersion is the precondition: if anybody has written it, a new shard for example, the
	// API server refuses.
	_, err = write.Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// budget is what the budget of a Deployment should be. It has the Deployment as its controller
// (guideline 12), so that it is deleted with it, and follows it from shard to shard; and the shard's
// label from the start, so that this shard sees it also when no webhook gives it one.
func (c *controller) budget(deployment *appsv1.Deployment) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       deployment.Namespace,
			Name:            deployment.Name,
			Labels:          c.labels(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: deployment.Spec.Selector},
	}
}
