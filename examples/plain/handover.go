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

// handOver acknowledges the drain label: it releases the Deployment. If the label names the next
// owner, the budget moves first and the Deployment last, so that no shard has a Deployment without
// its budget. Otherwise one write removes both labels, and the webhook of the sharder assigns the
// next owner, or, if it is down, the sharder does so later. It also moves the budget.
func (c *controller) handOver(ctx context.Context, deployment *appsv1.Deployment, next string) error {
	next, err := c.destination(ctx, next)
	if err != nil {
		return err
	}
	// A dry run shows whether the handover is allowed. If it is not, the budget must stay as well.
	patch, err := c.releasePatch(deployment.ResourceVersion, next)
	if err != nil {
		return err
	}
	deployments := c.client.AppsV1().Deployments(deployment.Namespace)
	if _, err := deployments.Patch(ctx, deployment.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager, DryRun: []string{metav1.DryRunAll}}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("handing over to shard %q: %w", next, err)
	}
	if next != "" {
		if err := c.moveBudget(ctx, deployment, next); err != nil {
			return fmt.Errorf("handing over the budget to shard %s: %w", next, err)
		}
	}
	// After an error the handover is retried before anything else: in the cache the drain label
	// stays until this write succeeds, also if only the response was lost.
	released, err := deployments.Patch(ctx, deployment.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("handing over to shard %q: %w", next, err)
	}
	// The webhook may have assigned this shard again.
	if released.Labels[c.labelShard] != c.shard {
		c.released.Store(cache.MetaObjectToName(deployment), released.ResourceVersion)
	}
	return nil
}

// destination returns the shard that a drain label names, if it is another live shard of the ring.
// Other sharders write "true", and users may write anything: a Deployment with the label of a shard
// that does not exist would be orphaned.
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

// moveBudget moves the budget of a Deployment to another shard. It reads the budget from the API
// server, because the cache may not have it yet.
func (c *controller) moveBudget(ctx context.Context, deployment *appsv1.Deployment, next string) error {
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
	patch, err := c.releasePatch(budget.ResourceVersion, next)
	if err != nil {
		return err
	}
	_, err = budgets.Patch(ctx, budget.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// releasePatch returns the patch that releases an object, and assigns it to the next shard if that
// is known. The resourceVersion is its precondition.
func (c *controller) releasePatch(version, next string) ([]byte, error) {
	labels := map[string]any{c.labelShard: nil, c.labelDrain: nil}
	if next != "" {
		labels[c.labelShard] = next
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version, "labels": labels}})
}

// isReleased returns true if a Deployment was handed over, and the cache has not observed that yet.
// It must not be processed then. If the cache has a later version, the Deployment has come back.
func (c *controller) isReleased(ref cache.ObjectName, deployment *appsv1.Deployment) (bool, error) {
	releasedAt, released := c.released.Load(ref)
	if !released {
		return false, nil
	}
	later, err := resourceversion.CompareResourceVersion(deployment.ResourceVersion, releasedAt.(string))
	if err != nil || later <= 0 {
		return true, err
	}
	c.released.Delete(ref)
	return false, nil
}
