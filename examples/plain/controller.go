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
	// resync is how often every object is looked at although nothing has happened (guideline 10). Nobody
	// tells us when somebody else's budget is no longer in the way of ours.
	resync = 10 * time.Minute
	// patience is how long the first lists may take.
	patience = 2 * time.Minute
)

// selection is which Deployments a controller works on: those of a shard, or all.
type selection struct {
	// labelShard and labelDrain are the ring's labels, shard is the name of this one.
	labelShard, labelDrain, shard string
	// ring and namespace are where the Leases of the shards are.
	ring, namespace string
}

// labels are what all objects of this shard have.
func (s selection) labels() labels.Set {
	if s.labelShard == "" {
		return nil
	}
	return labels.Set{s.labelShard: s.shard}
}

// controller keeps a PodDisruptionBudget for every Deployment that is selected.
type controller struct {
	client kubernetes.Interface
	selection

	informers   informers.SharedInformerFactory
	deployments appslisters.DeploymentLister
	budgets     policylisters.PodDisruptionBudgetLister
	// queue has the Deployments to look at. It gives one to one worker at a time (guideline 1), which is
	// what makes a hand-over safe as well: nobody works on the Deployment meanwhile.
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
	// given has the Deployments that were handed over, each with its version since then, until the
	// informer has seen that.
	given sync.Map
}

func newController(client kubernetes.Interface, selected selection) (*controller, error) {
	c := &controller{
		client:    client,
		selection: selected,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName](),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "deployments"}),
	}
	// Shared informers (guideline 4) with the shard's label as their selector: the API server sends
	// nothing else, and so this process never knows of an object that is not its own. One that becomes
	// another shard's looks as if it had been deleted. Who leads sees all.
	c.informers = informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTweakListOptions(
		func(options *metav1.ListOptions) { options.LabelSelector = c.labels().String() },
	))
	deployments, budgets := c.informers.Apps().V1().Deployments(), c.informers.Policy().V1().PodDisruptionBudgets()
	c.deployments, c.budgets = deployments.Lister(), budgets.Lister()
	_, err := deployments.Informer().AddEventHandler(on(c.enqueue))
	if err != nil {
		return nil, err
	}
	// Whatever happens to a budget, what is looked at is its Deployment (guidelines 1 and 7).
	_, err = budgets.Informer().AddEventHandler(on(c.enqueueOwner))
	return c, err
}

// on calls see for every object that anything happens to: what it was does not count, only what it
// is (guideline 3). Of a change both sides are looked at: a budget may have had another owner before.
func on(see func(any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(before, after any) { see(before); see(after) },
		DeleteFunc: see,
	}
}

func (c *controller) enqueue(found any) {
	if ref, err := cache.DeletionHandlingObjectToName(found); err == nil {
		c.queue.Add(ref)
	}
}

func (c *controller) enqueueOwner(found any) {
	if missed, is := found.(cache.DeletedFinalStateUnknown); is {
		found = missed.Obj
	}
	object, is := found.(metav1.Object)
	if !is {
		return
	}
	if owner := metav1.GetControllerOf(object); owner != nil && owner.APIVersion == appsv1.SchemeGroupVersion.String() && owner.Kind == "Deployment" {
		c.queue.Add(cache.NewObjectName(object.GetNamespace(), owner.Name))
	}
}

// fillCaches starts the informers and waits for all of them (guideline 6): without the budgets in its
// cache the controller would take them for missing.
func (c *controller) fillCaches(ctx context.Context) error {
	c.informers.StartWithContext(ctx)
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result := c.informers.WaitForCacheSyncWithContext(limited)
	if ctx.Err() != nil {
		return nil // it is told to end
	}
	return result.AsError()
}

// run works until ctx ends, and returns when nothing is being worked on any more.
func (c *controller) run(ctx context.Context, workers int) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { wait.UntilWithContext(ctx, c.work, time.Second) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	group.Wait()
	logr.FromContextOrDiscard(ctx).Info("All work has ended")
}

func (c *controller) work(ctx context.Context) {
	for c.next(ctx) {
	}
}

// next deals with one Deployment. It returns false when it is time to end.
func (c *controller) next(ctx context.Context) bool {
	ref, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(ref)
	// What is still in the queue when the Lease is lost is no longer ours to work on.
	if ctx.Err() != nil {
		return false
	}
	err := c.sync(ctx, ref)
	if err == nil {
		c.queue.Forget(ref)
		return true
	}
	// All errors end up here, and all are tried again, later and later (guideline 9).
	if !errors.Is(err, context.Canceled) {
		utilruntime.HandleErrorWithContext(ctx, err, "Could not do what a Deployment needs, trying again", "deployment", ref)
	}
	c.queue.AddRateLimited(ref)
	return true
}

// sync does what a Deployment needs now (guideline 3): it lets it go if that is asked for, before
// anything else, and keeps its budget otherwise.
func (c *controller) sync(ctx context.Context, ref cache.ObjectName) error {
	deployment, err := c.deployments.Deployments(ref.Namespace).Get(ref.Name)
	if apierrors.IsNotFound(err) {
		// It was deleted, and its budget goes with it; or it is another shard's; or its budget was seen
		// before it (guideline 2), and its own event is still to come.
		c.given.Delete(ref)
		return nil
	}
	if err != nil {
		return err
	}
	if gone, err := c.isGone(ref, deployment); gone || err != nil {
		return err
	}
	if next, draining := deployment.Labels[c.labelDrain]; draining {
		err := c.handOver(ctx, deployment, next)
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return err
		}
		// It stays ours as long as a policy or a role forbids to hand it over, and is tried again.
		return errors.Join(err, c.ensureBudget(ctx, deployment))
	}
	if deployment.DeletionTimestamp != nil {
		return nil
	}
	if err := c.ensureBudget(ctx, deployment); err != nil {
		return fmt.Errorf("keeping its budget: %w", err)
	}
	return nil
}
