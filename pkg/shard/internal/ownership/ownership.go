package ownership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Objects reads the objects of this shard from its caches. Callers must not modify them.
type Objects interface {
	// Get reads an object from one of the caches of its kind.
	Get(ctx context.Context, kind *Kind, cache int, name types.NamespacedName) (client.Object, error)
	// ForEach visits the objects in the first cache of their kind. If controller is set, it may skip objects
	// that are not its children.
	ForEach(ctx context.Context, kind *Kind, controller types.UID, visit func(client.Object) error) error
}

// Peers are the other shards.
type Peers interface {
	// Contains reports whether a shard is a member that accepts objects.
	Contains(ctx context.Context, shard string) bool
	// Next returns the shard that should own a key when this shard leaves. It is "" if the webhook or the
	// sharder has to choose; ok is false without another shard.
	Next(ctx context.Context, key string) (shard string, ok bool, err error)
}

// Options are the options of an Ownership.
type Options struct {
	Ring, Shard string
	Objects     Objects
	Peers       Peers
	// GracePeriod is how long a reconcile may continue after the release of its object has begun. After
	// that its context ends.
	GracePeriod time.Duration
	// ConcurrentReleases is the number of objects that are released at the same time.
	ConcurrentReleases int
	// ObserveRelease is called with the result and the duration of each attempt to release an object.
	ObserveRelease func(Result, time.Duration)
}

// Result is the result of an attempt to release an object.
type Result string

// The results.
const (
	Released   Result = "released"
	Kept       Result = "kept"       // the drain was withdrawn
	Refused    Result = "refused"    // the API server or a policy refused the write
	Unanswered Result = "unanswered" // it is not known yet whether the write was applied
	Failed     Result = "failed"     // any other error
)

// Ownership tracks and releases the objects that this shard owns.
type Ownership struct {
	ownerLabels
	Options
	Kinds
	// writer reads and writes owners. It does not read from a cache.
	writer client.Client

	gate  *gate
	queue workqueue.TypedRateLimitingInterface[Key] // objects that are being drained
	slots chan struct{}                             // one value for each release in progress

	owned sync.Map // number of owned objects: schema.GroupKind to *atomic.Int64
	// drains has the time at which the drain of each object was first observed.
	drains struct {
		sync.Mutex
		since map[Key]time.Time
	}
}

// minRetryDelay and maxRetryDelay bound the exponential backoff between two attempts to release an object.
const minRetryDelay, maxRetryDelay = 20 * time.Millisecond, 30 * time.Second

// New returns the Ownership of a shard that owns nothing yet.
func New(options Options) *Ownership {
	o := &Ownership{
		ownerLabels: newOwnerLabels(options.Ring, options.Shard),
		Options:     options,
		gate:        newGate(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[Key](minRetryDelay, maxRetryDelay),
			workqueue.TypedRateLimitingQueueConfig[Key]{Name: "shard-releases"}),
		slots: make(chan struct{}, options.ConcurrentReleases),
	}
	o.drains.since = map[Key]time.Time{}
	return o
}

// SetWriter sets the client that reads and writes owners. It must not read from a cache.
func (o *Ownership) SetWriter(writer client.Client) { o.writer = writer }

// Begin begins a reconcile of an object, if the given cache shows that this shard owns it. The context ends
// when another shard gets the object; the caller must call end.
//
// If the object is being released, Begin returns Releasing. The caller should retry later, because this
// shard may keep the object.
func (o *Ownership) Begin(ctx context.Context, kind *Kind, cache int, name types.NamespacedName) (reconcileCtx context.Context, end func(), state State, err error) {
	k := Key{kind.GroupKind(), name}
	// The gate comes before the cache: if it is open, the cache shows the last release.
	reconcileCtx, end, ok := o.gate.enter(ctx, k)
	if !ok {
		return nil, nil, Releasing, nil
	}
	object, err := o.Objects.Get(reconcileCtx, kind, cache, name)
	if err != nil {
		end()
		if apierrors.IsNotFound(err) {
			return nil, nil, NotOwned, nil // deleted, or assigned to another shard
		}
		return nil, nil, NotOwned, err
	}
	if !o.isOwn(object) {
		end()
		return nil, nil, NotOwned, fmt.Errorf("the cache of shard %q has the %s %s, whose owner is %q: "+
			"NewCache in manager.Options must keep the label selectors that it is given, and a transform must keep the labels", o.Shard, kind.Kind, name, o.owner(object))
	}
	if _, draining := o.draining(object); draining && !o.gate.isRefused(k) {
		end()
		o.queue.Add(k)
		return nil, nil, Releasing, nil
	}
	return reconcileCtx, end, Owned, nil
}

// State is whether this shard owns an object.
type State int

// The states.
const (
	NotOwned State = iota
	Owned
	Releasing
)

// Owns reports whether this shard owns an object and may reconcile it.
func (o *Ownership) Owns(ctx context.Context, kind *Kind, name types.NamespacedName) bool {
	_, end, state, err := o.Begin(ctx, kind, 0, name)
	if err != nil || state != Owned {
		return false
	}
	end()
	return true
}

// Adopt assigns a new child of one of this shard's objects to this shard, and reports whether it did. The
// API server then need not call the webhook, which may not exist.
func (o *Ownership) Adopt(ctx context.Context, child client.Object) bool {
	owner := metav1.GetControllerOfNoCopy(child)
	return owner != nil && o.ownsController(ctx, owner, child) && o.claim(child)
}

// ownsController reports whether the child is of a controlled kind and this shard owns its controller.
// Reconcilers that reconcile all objects of a kind may use the same client.
func (o *Ownership) ownsController(ctx context.Context, owner *metav1.OwnerReference, child client.Object) bool {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return false
	}
	kind := o.MainKind(schema.GroupKind{Group: version.Group, Kind: owner.Kind})
	if kind == nil || o.writer == nil {
		return false
	}
	gvk, err := o.writer.GroupVersionKindFor(child)
	if err != nil || !kind.controls(gvk.GroupKind()) {
		return false
	}
	// A cluster-scoped controller has no namespace, even if its children have one.
	for _, name := range []types.NamespacedName{{Namespace: child.GetNamespace(), Name: owner.Name}, {Name: owner.Name}} {
		found, err := o.Objects.Get(ctx, kind, 0, name)
		if err == nil && found.GetUID() == owner.UID {
			return true
		}
	}
	return false
}

// Handler returns the event handler for one of the caches of a main kind. It gets all events, regardless
// of the predicates of controllers.
func (o *Ownership) Handler(kind *Kind, cache int) toolscache.ResourceEventHandler {
	owned := o.ownedCount(kind.GroupKind())
	observe := func(found any) {
		object, ok := found.(client.Object)
		if !ok {
			return
		}
		k := Key{kind.GroupKind(), client.ObjectKeyFromObject(object)}
		waiting := o.gate.isWaiting(k)
		o.gate.observe(k, object.GetResourceVersion(), cache)
		_, draining := o.draining(object)
		if cache == 0 {
			o.trackDrain(k, draining)
			if !draining {
				o.gate.forgetRefusal(k)
			}
		}
		switch {
		case !draining || cache != 0 && !waiting:
		case o.gate.isLagging(k):
			// An attempt before the caches agree would fail, and could interrupt a reconcile.
			if _, err := o.cached(context.Background(), kind, k); !errors.Is(err, errCachesDiffer) {
				o.queue.Add(k)
			}
		case !o.gate.isRefused(k): // otherwise the next attempt is already scheduled
			o.queue.Add(k)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(found any) {
			if cache == 0 {
				owned.Add(1)
			}
			observe(found)
		},
		UpdateFunc: func(_, found any) { observe(found) },
		DeleteFunc: func(found any) {
			name, err := toolscache.DeletionHandlingObjectToName(found)
			if err != nil {
				return
			}
			k := Key{kind.GroupKind(), types.NamespacedName{Namespace: name.Namespace, Name: name.Name}}
			version := "" // unknown if the watch missed the deletion
			if object, ok := found.(client.Object); ok {
				version = object.GetResourceVersion()
			}
			o.gate.observeDeletion(k, version, cache)
			if cache != 0 {
				return
			}
			owned.Add(-1)
			o.trackDrain(k, false)
			for _, call := range kind.released {
				call(reconcile.Request{NamespacedName: k.NamespacedName})
			}
		},
	}
}

// trackDrain records whether an object is being drained, and since when.
func (o *Ownership) trackDrain(k Key, draining bool) {
	o.drains.Lock()
	defer o.drains.Unlock()
	switch _, known := o.drains.since[k]; {
	case !draining:
		delete(o.drains.since, k)
	case !known:
		o.drains.since[k] = time.Now()
	}
}

func (o *Ownership) ownedCount(kind schema.GroupKind) *atomic.Int64 {
	count, _ := o.owned.LoadOrStore(kind, &atomic.Int64{})
	return count.(*atomic.Int64)
}

// OwnedObjects returns the number of objects of a main kind that this shard owns.
func (o *Ownership) OwnedObjects(kind schema.GroupKind) int { return int(o.ownedCount(kind).Load()) }

// Stats are the values of the metrics.
type Stats struct {
	// Owned is the number of main objects by kind.
	Owned map[schema.GroupKind]int
	// Draining is the number of objects that are being drained, and OldestDrain the start of the oldest
	// drain.
	Draining    int
	OldestDrain time.Time
	// Blocked is the number of objects that are not reconciled because they are being released.
	Blocked int
}

// Stats returns the current values.
func (o *Ownership) Stats() Stats {
	stats := Stats{Owned: map[schema.GroupKind]int{}, Blocked: o.gate.blockedObjects()}
	o.owned.Range(func(kind, count any) bool {
		stats.Owned[kind.(schema.GroupKind)] = int(count.(*atomic.Int64).Load())
		return true
	})
	o.drains.Lock()
	defer o.drains.Unlock()
	stats.Draining = len(o.drains.since)
	for _, since := range o.drains.since {
		if stats.OldestDrain.IsZero() || since.Before(stats.OldestDrain) {
			stats.OldestDrain = since
		}
	}
	return stats
}
