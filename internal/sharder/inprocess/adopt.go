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
	// adopters is how many objects of a kind get their shard at the same time. How many writes are under way
	// in all is bounded elsewhere.
	adopters = 50
	// retryFirst and retryMost are how long to wait before an object is tried again.
	retryFirst, retryMost = 20 * time.Millisecond, time.Second
	// maxRetries is how often it is tried. After that the next rescue finds it, which bounds what many objects that
	// cannot be written cost.
	maxRetries = 5
)

// adopt gives each object of a resource that has no shard one, as soon as it is there, until ctx ends.
// The watch is on those without the label: with the label an object is gone from it.
func (s *Sharder) adopt(ctx context.Context, resource *catalog.Resource) {
	waiting := newNewcomers(resource, s.namespaces.selects)
	log := logf.FromContext(ctx).WithValues("resource", resource.Resource.GroupResource().String())
	var group sync.WaitGroup
	for range adopters {
		group.Go(func() {
			for waiting.next(func(object *metav1.PartialObjectMetadata) error {
				err := s.group.Mover().Settle(ctx, s.Ring, resource, object)
				if err != nil && ctx.Err() == nil {
					// A rescue reports what cannot be written, in one line for all objects of a kind.
					log.V(1).Info("Could not assign an object", "namespace", object.Namespace, "name", object.Name, "error", err.Error())
				}
				return err
			}) {
			}
		})
	}
	client := s.metadata.Resource(resource.Resource)
	newcomers := func(options *metav1.ListOptions) { options.LabelSelector = "!" + shardingv1alpha1.LabelShard(s.Ring) }
	toolscache.NewReflectorWithOptions(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			newcomers(&options)
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			newcomers(&options)
			return client.Watch(ctx, options)
		},
	}, &metav1.PartialObjectMetadata{}, waiting, toolscache.ReflectorOptions{
		Logger: &log, Name: "newcomers", TypeDescription: resource.Resource.String(),
	}).RunWithContext(klog.NewContext(ctx, log))
	waiting.queue.ShutDown()
	group.Wait()
}

// newcomers are the objects of a resource that have no shard and belong to the ring. It is what a Reflector
// fills; unlike a cache it keeps nothing but those that wait for their shard.
type newcomers struct {
	resource *catalog.Resource
	selects  func(namespace string) bool
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu      sync.Mutex
	objects map[types.NamespacedName]*metav1.PartialObjectMetadata
}

var (
	_ toolscache.ReflectorStore    = &newcomers{}
	_ toolscache.TransformingStore = &newcomers{}
)

func newNewcomers(resource *catalog.Resource, selects func(string) bool) *newcomers {
	return &newcomers{
		resource: resource, selects: selects,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryFirst, retryMost),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{
				// Each resource has its own queue, and queues of one name would overwrite each other's metrics.
				Name: "sharder-unassigned-" + resource.Resource.GroupResource().String(),
			}),
		objects: map[types.NamespacedName]*metav1.PartialObjectMetadata{},
	}
}

// Add notes an object, if the ring spreads it.
func (n *newcomers) Add(found any) error {
	object, is := found.(*metav1.PartialObjectMetadata)
	if !is || !n.wanted(object) {
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

// Transformer makes a Reflector forget what no decision needs while it reads: there may be many objects when a
// ring is new.
func (n *newcomers) Transformer() toolscache.TransformFunc {
	return func(found any) (any, error) {
		if object, is := found.(*metav1.PartialObjectMetadata); is {
			strip(object)
		}
		return found, nil
	}
}

func strip(object *metav1.PartialObjectMetadata) { object.ManagedFields, object.Annotations = nil, nil }

// wanted tells whether the ring spreads an object. Most that have no label are others'.
func (n *newcomers) wanted(object *metav1.PartialObjectMetadata) bool {
	if n.resource.Kind.Namespaced && !n.selects(object.Namespace) {
		return false
	}
	if object.DeletionTimestamp != nil && len(object.Finalizers) == 0 {
		return false
	}
	_, err := n.resource.Owner(object)
	return err == nil
}

// Update notes an object that has changed.
func (n *newcomers) Update(found any) error { return n.Add(found) }

// Delete forgets an object: it has a shard now, or is gone.
func (n *newcomers) Delete(found any) error {
	if name, err := toolscache.DeletionHandlingObjectToName(found); err == nil {
		n.forget(types.NamespacedName{Namespace: name.Namespace, Name: name.Name})
	}
	return nil
}

func (n *newcomers) forget(name types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.objects, name)
}

// Replace notes all objects that there are.
func (n *newcomers) Replace(all []any, _ string) error {
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

// Resync does nothing: what has failed is tried again by itself.
func (n *newcomers) Resync() error { return nil }

// next lets one object get its shard. It returns false when there will be no more.
func (n *newcomers) next(settle func(*metav1.PartialObjectMetadata) error) bool {
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
	if err := settle(object); err != nil && n.queue.NumRequeues(name) < maxRetries {
		n.queue.AddRateLimited(name)
		return true
	}
	n.queue.Forget(name)
	n.mu.Lock()
	if n.objects[name] == object { // it may have changed meanwhile, and comes again then
		delete(n.objects, name)
	}
	n.mu.Unlock()
	return true
}
