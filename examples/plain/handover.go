package main

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// handOver answers the drain label, which means: let this Deployment go. Its value may name the shard
// that is to have it; then the budget goes there first and the Deployment last, so that no shard ever
// has a Deployment without its budget. Otherwise both labels go in one write, in which the sharder's
// webhook chooses the next shard; if it is down, the sharder does so later. It also brings the budget.
func (c *controller) handOver(ctx context.Context, deployment *appsv1.Deployment, next string) error {
	next, err := c.destination(ctx, next)
	if err != nil {
		return err
	}
	// Is it allowed at all? If not, the budget stays as well.
	patch, err := c.give(deployment.ResourceVersion, next)
	if err != nil {
		return err
	}
	deployments := c.client.AppsV1().Deployments(deployment.Namespace)
	if _, err := deployments.Patch(ctx, deployment.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager, DryRun: []string{metav1.DryRunAll}}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("handing it over to %q: %w", next, err)
	}
	if next != "" {
		if err := c.giveBudget(ctx, deployment, next); err != nil {
			return fmt.Errorf("handing its budget over to %s: %w", next, err)
		}
	}
	// After an error it is tried again, and nothing else: the drain label is there until this write is
	// done, and also if it was done and only the answer got lost.
	given, err := deployments.Patch(ctx, deployment.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("handing it over to %q: %w", next, err)
	}
	// The webhook may have chosen this shard again.
	if given.Labels[c.labelShard] != c.shard {
		c.given.Store(cache.MetaObjectToName(deployment), given.ResourceVersion)
	}
	return nil
}

// destination is the shard that a drain label names, if that is another live shard of the ring. Other sharders write "true",
// and people write anything: a Deployment that goes to a name that nobody has would be nobody's.
func (c *controller) destination(ctx context.Context, value string) (string, error) {
	if value == c.shard || len(validation.IsDNS1123Subdomain(value)) > 0 {
		return "", nil
	}
	lease, err := c.client.CoordinationV1().Leases(c.namespace).Get(ctx, value, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("looking up the shard %s: %w", value, err)
	}
	_, leaving := lease.Annotations[shardingv1alpha1.AnnotationLeaving]
	if lease.Labels[shardingv1alpha1.LabelControllerRing] != c.ring || ptr.Deref(lease.Spec.HolderIdentity, "") != value || leaving {
		return "", nil
	}
	return value, nil
}

// giveBudget gives the budget of a Deployment to another shard. It asks the API server for it: a budget
// that was created a moment ago may not be in the cache.
func (c *controller) giveBudget(ctx context.Context, deployment *appsv1.Deployment, next string) error {
	budgets := c.client.PolicyV1().PodDisruptionBudgets(deployment.Namespace)
	budget, err := budgets.Get(ctx, deployment.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case !metav1.IsControlledBy(budget, deployment) || budget.Labels[c.labelShard] != c.shard:
		return nil
	}
	patch, err := c.give(budget.ResourceVersion, next)
	if err != nil {
		return err
	}
	_, err = budgets.Patch(ctx, budget.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// give is the write that makes an object another shard's. The version is its precondition: nobody may
// have changed the object since it was decided about.
func (c *controller) give(version, next string) ([]byte, error) {
	labels := map[string]any{c.labelShard: nil, c.labelDrain: nil}
	if next != "" {
		labels[c.labelShard] = next
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version, "labels": labels}})
}

// isGone tells whether the cache has not seen yet that a Deployment was handed over. Until then it still
// looks like this shard's, and must not be worked on. If the cache has a later version, it has come back.
func (c *controller) isGone(ref cache.ObjectName, deployment *appsv1.Deployment) (bool, error) {
	since, given := c.given.Load(ref)
	if !given {
		return false, nil
	}
	later, err := resourceversion.CompareResourceVersion(deployment.ResourceVersion, since.(string))
	if err != nil || later <= 0 {
		return true, err
	}
	c.given.Delete(ref)
	return false, nil
}
