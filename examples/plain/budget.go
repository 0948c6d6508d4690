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

// fieldManager is the field manager of all writes.
const fieldManager = "plain"

// errNameTaken is returned if a budget of another owner has the name. It is not adopted (guideline
// 12).
var errNameTaken = errors.New("a PodDisruptionBudget of this name exists that the Deployment does not control: delete or rename it")

// ensureBudget brings the budget of a Deployment to its desired state. It does not write the status
// of the Deployment, which belongs to another controller (guideline 11).
func (c *controller) ensureBudget(ctx context.Context, deployment *appsv1.Deployment) error {
	desired := c.budget(deployment)
	budgets := c.client.PolicyV1().PodDisruptionBudgets(desired.Namespace)
	current, err := c.budgets.PodDisruptionBudgets(desired.Namespace).Get(desired.Name)
	switch {
	case apierrors.IsNotFound(err):
		_, err = budgets.Create(ctx, desired, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) {
			// The budget is not in the cache, which has only the objects of this shard.
			return fmt.Errorf("%w, or it is moving from another shard: %w", errNameTaken, err)
		}
		return err
	case err != nil:
		return err
	case !metav1.IsControlledBy(current, deployment):
		return errNameTaken
	case current.DeletionTimestamp != nil || equality.Semantic.DeepEqual(current.Spec, desired.Spec):
		return nil // its deletion triggers another sync
	}
	changed := current.DeepCopy() // objects in the cache are shared (guideline 5)
	changed.Spec = desired.Spec
	// The resourceVersion is the precondition: the API server rejects the update after another
	// write, for example by a new owner.
	_, err = budgets.Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// budget returns the desired budget of a Deployment. The Deployment is its controller (guideline
// 12), so that the budget is deleted and moves between shards with it. It has the shard label from
// the start, so that this shard sees it even if the webhook is down.
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
