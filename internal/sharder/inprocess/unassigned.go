package inprocess

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

const (
	// concurrentAssignments is the number of workers of a resource. The Mover bounds the number of concurrent writes.
	concurrentAssignments = 50
	// minRetryDelay and maxRetryDelay bound the backoff of an object.
	minRetryDelay, maxRetryDelay = 20 * time.Millisecond, time.Second
	// maxRetries is how often an object is retried before it is left to the next rescue. This bounds the cost of
	// many objects that cannot be written.
	maxRetries = 5
)

// assignNewObjects assigns each object of a resource as soon as it is created, until ctx ends. It watches
// objects without the shard label: once an object has the label, the watch reports it as deleted.
func (s *Sharder) assignNewObjects(ctx context.Context, resource *catalog.Resource) {
	unassigned := newUnassignedObjects(resource, s.namespaces.selects)
	log := logf.FromContext(ctx).WithValues("resource", resource.Resource.GroupResource().String())
	var group sync.WaitGroup
	for range concurrentAssignments {
		group.Go(func() {
			for unassigned.next(func(object *metav1.PartialObjectMetadata) error {
				err := s.group.Mover().ReconcileObject(ctx, s.Ring, resource, object)
				if err != nil && ctx.Err() == nil {
					// A rescue reports what cannot be written, in one line for all objects of a kind.
					log.V(1).Info("Failed to assign an object", "namespace", object.Namespace, "name", object.Name, "error", err.Error())
				}
				return err
			}) {
			}
		})
	}
	client := s.metadata.Resource(resource.Resource)
	withoutShard := func(options *metav1.ListOptions) { options.LabelSelector = "!" + shardingv1alpha1.LabelShard(s.Ring) }
	toolscache.NewReflectorWithOptions(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			withoutShard(&options)
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			withoutShard(&options)
			return client.Watch(ctx, options)
		},
	}, &metav1.PartialObjectMetadata{}, unassigned, toolscache.ReflectorOptions{
		Logger: &log, Name: "unassigned", TypeDescription: resource.Resource.String(),
	}).RunWithContext(klog.NewContext(ctx, log))
	unassigned.queue.ShutDown()
	group.Wait()
}

// unassignedObjects are the objects of a resource in the ring that have no shard. It is the store of a
// Reflector; unlike a cache, it keeps an object only until it is assigned.
type unassignedObjects struct {
	resource *catalog.Resource
	selects  func(namespace string) bool
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu      sync.Mutex
	objects map[types.NamespacedName]*metav1.PartialObjectMetadata
}

var (
	_ toolscache.ReflectorStore    = &unassignedObjects{}
	_ toolscache.TransformingStore = &unassignedObjects{}
)

func newUnassignedObjects(resource *catalog.Resource, selects func(string) bool) *unassignedObjects {
	return &unassignedObjects{
		resource: resource, selects: selects,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](minRetryDelay, maxRetryDelay),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{
				// Each resource has its own queue, and queues of one name would overwrite each other's metrics.
				Name: "sharder-unassigned-" + resource.Resource.GroupResource().String(),
			}),
		objects: map[types.NamespacedName]*metav1.PartialObjectMetadata{},
	}
}

// Add enqueues an object if it is in the ring.
func (n *unassignedObjects) Add(found any) error {
	object, ok := found.(*metav1.PartialObjectMetadata)
	if !ok || !n.isUnassigned(object) {
		return nil
	}
	strip(object)
	name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	n.mu.Lock()
	n.objects[name] = object
	n.mu.Unlock()
	n.queue.Add(name)
	return nil
}

// Transformer makes the Reflector drop fields that no decision needs: a new ring may have many objects.
func (n *unassignedObjects) Transformer() toolscache.TransformFunc {
	return func(found any) (any, error) {
		if object, ok := found.(*metav1.PartialObjectMetadata); ok {
			strip(object)
		}
		return found, nil
	}
}

func strip(object *metav1.PartialObjectMetadata) { object.ManagedFields, object.Annotations = nil, nil }

// isUnassigned reports whether an object without the label is in the ring. Most are not.
func (n *unassignedObjects) isUnassigned(object *metav1.PartialObjectMetadata) bool {
	if n.resource.Kind.Namespaced && !n.selects(object.Namespace) {
		return false
	}
	if object.DeletionTimestamp != nil && len(object.Finalizers) == 0 {
		return false
	}
	_, err := n.resource.MainObject(object)
	return err == nil
}

// Update enqueues a changed object.
func (n *unassignedObjects) Update(found any) error { return n.Add(found) }

// Delete removes an object that was assigned or deleted.
func (n *unassignedObjects) Delete(found any) error {
	if name, err := toolscache.DeletionHandlingObjectToName(found); err == nil {
		n.forget(types.NamespacedName{Namespace: name.Namespace, Name: name.Name})
	}
	return nil
}

func (n *unassignedObjects) forget(name types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.objects, name)
}

// Replace replaces all objects.
func (n *unassignedObjects) Replace(all []any, _ string) error {
	n.mu.Lock()
	n.objects = map[types.NamespacedName]*metav1.PartialObjectMetadata{}
	n.mu.Unlock()
	for _, found := range all {
		if err := n.Add(found); err != nil {
			return err
		}
	}
	return nil
}

// Resync does nothing: the queue retries failed objects.
func (n *unassignedObjects) Resync() error { return nil }

// next assigns one object. It returns false when the queue is shut down.
func (n *unassignedObjects) next(assign func(*metav1.PartialObjectMetadata) error) bool {
	name, shutdown := n.queue.Get()
	if shutdown {
		return false
	}
	defer n.queue.Done(name)
	n.mu.Lock()
	object := n.objects[name]
	n.mu.Unlock()
	if object == nil {
		n.queue.Forget(name)
		return true
	}
	if err := assign(object); err != nil && n.queue.NumRequeues(name) < maxRetries {
		n.queue.AddRateLimited(name)
		return true
	}
	n.queue.Forget(name)
	n.mu.Lock()
	if n.objects[name] == object { // if it changed meanwhile, it is enqueued again
		delete(n.objects, name)
	}
	n.mu.Unlock()
	return true
}
