package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// resync is the period after which every object is processed again (guideline 10). No event
	// announces that a budget of another owner no longer has the name.
	resync = 10 * time.Minute
	// syncTimeout is the limit for the first lists.
	syncTimeout = 2 * time.Minute
)

// selection selects the Deployments of a controller: those of a shard, or all.
type selection struct {
	// labelShard and labelDrain are the labels of the ring, shard is the name of this shard.
	labelShard, labelDrain, shard string
	// ring is the ring of the shard, namespace has the Leases.
	ring, namespace string
}

// labels returns the labels of all objects of this shard.
func (s selection) labels() labels.Set {
	if s.labelShard == "" {
		return nil
	}
	return labels.Set{s.labelShard: s.shard}
}

// controller maintains a PodDisruptionBudget for every selected Deployment.
type controller struct {
	client kubernetes.Interface
	selection

	informers   informers.SharedInformerFactory
	deployments appslisters.DeploymentLister
	budgets     policylisters.PodDisruptionBudgetLister
	// queue has the Deployments to process. It gives each to one worker at a time (guideline 1).
	// This makes the handover safe: no other worker processes the Deployment meanwhile.
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
	// released has the resourceVersions of Deployments that were handed over, until the informer
	// has observed the handover.
	released sync.Map
}

func newController(client kubernetes.Interface, selected selection) (*controller, error) {
	c := &controller{
		client:    client,
		selection: selected,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName](),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "deployments"}),
	}
	// Shared informers (guideline 4) select by the shard label, so that the API server sends only
	// the objects of this shard. An object that moves to another shard looks deleted. A leader
	// watches all objects.
	c.informers = informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTweakListOptions(
		func(options *metav1.ListOptions) { options.LabelSelector = c.labels().String() },
	))
	deployments, budgets := c.informers.Apps().V1().Deployments(), c.informers.Policy().V1().PodDisruptionBudgets()
	c.deployments, c.budgets = deployments.Lister(), budgets.Lister()
	_, err := deployments.Informer().AddEventHandler(onChange(c.enqueue))
	if err != nil {
		return nil, err
	}
	// A change of a budget enqueues its Deployment (guidelines 1 and 7).
	_, err = budgets.Informer().AddEventHandler(onChange(c.enqueueOwner))
	return c, err
}

// onChange calls enqueue for every change of an object. The kind of change does not matter, only
// the state (guideline 3). After an update it enqueues for the old and the new object, because a
// budget may have had another owner.
func onChange(enqueue func(any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(before, after any) { enqueue(before); enqueue(after) },
		DeleteFunc: enqueue,
	}
}

func (c *controller) enqueue(found any) {
	if ref, err := cache.DeletionHandlingObjectToName(found); err == nil {
		c.queue.Add(ref)
	}
}

func (c *controller) enqueueOwner(found any) {
	if tombstone, ok := found.(cache.DeletedFinalStateUnknown); ok {
		found = tombstone.Obj
	}
	object, ok := found.(metav1.Object)
	if !ok {
		return
	}
	if owner := metav1.GetControllerOf(object); owner != nil && owner.APIVersion == appsv1.SchemeGroupVersion.String() && owner.Kind == "Deployment" {
		c.queue.Add(cache.NewObjectName(object.GetNamespace(), owner.Name))
	}
}

// fillCaches starts the informers and waits for all of them (guideline 6). With an empty cache, the
// controller would treat existing budgets as missing.
func (c *controller) fillCaches(ctx context.Context) error {
	c.informers.StartWithContext(ctx)
	limited, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	result := c.informers.WaitForCacheSyncWithContext(limited)
	if ctx.Err() != nil {
		return nil // shutdown
	}
	return result.AsError()
}

// run processes Deployments until ctx ends, and returns when all workers have ended.
func (c *controller) run(ctx context.Context, workers int) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { wait.UntilWithContext(ctx, c.work, time.Second) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	group.Wait()
	logr.FromContextOrDiscard(ctx).Info("All workers have ended")
}

func (c *controller) work(ctx context.Context) {
	for c.next(ctx) {
	}
}

// next processes one Deployment. It returns false on shutdown.
func (c *controller) next(ctx context.Context) bool {
	ref, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(ref)
	// After the Lease was lost, the remaining Deployments in the queue may belong to other shards.
	if ctx.Err() != nil {
		return false
	}
	err := c.sync(ctx, ref)
	if err == nil {
		c.queue.Forget(ref)
		return true
	}
	// All errors are retried with backoff (guideline 9).
	if !errors.Is(err, context.Canceled) {
		utilruntime.HandleErrorWithContext(ctx, err, "Failed to sync Deployment", "deployment", ref)
	}
	c.queue.AddRateLimited(ref)
	return true
}

// sync reconciles a Deployment (guideline 3). If it has the drain label, sync hands it over first;
// otherwise it maintains the budget.
func (c *controller) sync(ctx context.Context, ref cache.ObjectName) error {
	deployment, err := c.deployments.Deployments(ref.Namespace).Get(ref.Name)
	if apierrors.IsNotFound(err) {
		// It was deleted, and its budget with it; or it moved to another shard; or its budget was
		// observed first (guideline 2), and its own event is yet to come.
		c.released.Delete(ref)
		return nil
	}
	if err != nil {
		return err
	}
	if released, err := c.isReleased(ref, deployment); released || err != nil {
		return err
	}
	if next, draining := deployment.Labels[c.labelDrain]; draining {
		err := c.handOver(ctx, deployment, next)
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return err
		}
		// It stays with this shard as long as a policy or a role forbids the handover, which is
		// retried.
		return errors.Join(err, c.ensureBudget(ctx, deployment))
	}
	if deployment.DeletionTimestamp != nil {
		return nil
	}
	if err := c.ensureBudget(ctx, deployment); err != nil {
		return fmt.Errorf("reconciling the budget: %w", err)
	}
	return nil
}
