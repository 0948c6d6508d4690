package ownership

import (
	"context"
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

// Objects reads the objects of this shard from its caches. What it returns must not be changed.
type Objects interface {
	// Get reads an object from one of the caches of its kind.
	Get(ctx context.Context, kind *Kind, cache int, name types.NamespacedName) (client.Object, error)
	// Each visits the objects in the first cache of their kind. A controller selects its children.
	Each(ctx context.Context, kind *Kind, controller types.UID, visit func(client.Object) error) error
}

// Peers are the other shards.
type Peers interface {
	// Contains tells whether a shard can take objects.
	Contains(ctx context.Context, shard string) bool
	// Next returns the shard that should own a key when this one leaves. It is "" if the webhook or the sharder has to
	// choose; ok is false if there is no other shard.
	Next(ctx context.Context, key string) (shard string, ok bool, err error)
}

// Options are what an Ownership needs.
type Options struct {
	Ring, Shard string
	Objects     Objects
	Peers       Peers
	// Grace is how long a reconcile may go on when the release of its object is asked for. After that its context ends.
	Grace time.Duration
	// ConcurrentReleases is how many objects are released at the same time.
	ConcurrentReleases int
	// Observe gets the result and the duration of each attempt to release an object.
	Observe func(Result, time.Duration)
}

// Result is what came of an attempt to release an object.
type Result string

// The results.
const (
	Released   Result = "released"
	Kept       Result = "kept"       // the release was no longer asked for
	Refused    Result = "refused"    // the API server or a policy refused the write
	Unanswered Result = "unanswered" // whether the write was applied is not known yet
	Failed     Result = "failed"     // for any other reason
)

// Ownership is what this shard owns.
type Ownership struct {
	record
	Options
	Kinds
	// writer writes who owns an object. It reads no cache.
	writer client.Client

	gate  *gate
	queue workqueue.TypedRateLimitingInterface[Key] // objects whose release is asked for
	slots chan struct{}                             // a value for each release in progress

	owned sync.Map // by schema.GroupKind, *atomic.Int64
	asked struct {
		sync.Mutex
		since map[Key]time.Time
	}
}

// retryFirst and retryMost are how long to wait before the release of an object is tried again.
const retryFirst, retryMost = 20 * time.Millisecond, 30 * time.Second

// New returns the Ownership of a shard that owns nothing yet.
func New(options Options) *Ownership {
	o := &Ownership{
		record:  newRecord(options.Ring, options.Shard),
		Options: options,
		gate:    newGate(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[Key](retryFirst, retryMost),
			workqueue.TypedRateLimitingQueueConfig[Key]{Name: "shard-releases"}),
		slots: make(chan struct{}, options.ConcurrentReleases),
	}
	o.asked.since = map[Key]time.Time{}
	return o
}

// WriteWith sets the client that writes who owns an object. It must not read a cache.
func (o *Ownership) WriteWith(writer client.Client) { o.writer = writer }

// Begin begins a reconcile of an object that a cache shows, if this shard owns it. Its context ends when another shard
// gets the object; the caller must call end. If the object is being released, it returns Releasing: the caller should ask
// again after a while, because the object may stay.
func (o *Ownership) Begin(ctx context.Context, kind *Kind, cache int, name types.NamespacedName) (running context.Context, end func(), state State, err error) {
	k := Key{kind.GroupKind(), name}
	// First the gate, then the cache: what the gate lets pass was not released before, or the cache knows it.
	running, end, ok := o.gate.enter(ctx, k)
	if !ok {
		return nil, nil, Releasing, nil
	}
	object, err := o.Objects.Get(running, kind, cache, name)
	if err != nil {
		end()
		if apierrors.IsNotFound(err) {
			return nil, nil, NotOwned, nil // deleted, or another shard's
		}
		return nil, nil, NotOwned, err
	}
	if _, asked := o.record.asked(object); asked && !o.gate.isRefused(k) {
		end()
		o.queue.Add(k)
		return nil, nil, Releasing, nil
	}
	return running, end, Owned, nil
}

// State is whether this shard owns an object.
type State int

// The states.
const (
	NotOwned State = iota
	Owned
	Releasing
)

// Owns tells whether this shard owns an object and may work on it.
func (o *Ownership) Owns(ctx context.Context, kind *Kind, name types.NamespacedName) bool {
	_, end, state, err := o.Begin(ctx, kind, 0, name)
	if err != nil || state != Owned {
		return false
	}
	end()
	return true
}

// Adopt records a new child of one of this shard's objects for this shard, and tells whether it did. The webhook would do so
// too; but this needs no call of it, and works without one.
func (o *Ownership) Adopt(ctx context.Context, child client.Object) bool {
	owner := metav1.GetControllerOfNoCopy(child)
	return owner != nil && o.controls(ctx, owner, child) && o.mark(child)
}

// controls tells whether an object is of a kind that follows its controller, and this shard owns the controller. A
// controller that works on all objects of a kind may share this client.
func (o *Ownership) controls(ctx context.Context, owner *metav1.OwnerReference, child client.Object) bool {
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
	// A cluster-scoped controller has no namespace, whatever its children have.
	for _, name := range []types.NamespacedName{{Namespace: child.GetNamespace(), Name: owner.Name}, {Name: owner.Name}} {
		found, err := o.Objects.Get(ctx, kind, 0, name)
		if err == nil && found.GetUID() == owner.UID {
			return true
		}
	}
	return false
}

// Handler learns of all that happens to the main objects of this shard in one of the caches of their kind, whatever
// predicates the controllers have.
func (o *Ownership) Handler(kind *Kind, cache int) toolscache.ResourceEventHandler {
	owned := o.ownedOf(kind.GroupKind())
	observe := func(found any) {
		object, is := found.(client.Object)
		if !is {
			return
		}
		k := Key{kind.GroupKind(), client.ObjectKeyFromObject(object)}
		o.gate.observe(k, object.GetResourceVersion(), cache)
		if cache != 0 {
			return
		}
		_, asked := o.record.asked(object)
		o.noteAsked(k, asked)
		switch {
		case !asked:
			o.gate.forgetRefusal(k)
		case !o.gate.isRefused(k): // else the next attempt is scheduled
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
			version := "" // not known if the deletion itself was missed
			if object, is := found.(client.Object); is {
				version = object.GetResourceVersion()
			}
			o.gate.observeDeletion(k, version, cache)
			if cache != 0 {
				return
			}
			owned.Add(-1)
			o.noteAsked(k, false)
			for _, call := range kind.released {
				call(reconcile.Request{NamespacedName: k.NamespacedName})
			}
		},
	}
}

func (o *Ownership) noteAsked(k Key, asked bool) {
	o.asked.Lock()
	defer o.asked.Unlock()
	switch _, known := o.asked.since[k]; {
	case !asked:
		delete(o.asked.since, k)
	case !known:
		o.asked.since[k] = time.Now()
	}
}

func (o *Ownership) ownedOf(kind schema.GroupKind) *atomic.Int64 {
	count, _ := o.owned.LoadOrStore(kind, &atomic.Int64{})
	return count.(*atomic.Int64)
}

// Stats is what the metrics show.
type Stats struct {
	// Owned is the number of main objects by kind.
	Owned map[schema.GroupKind]int
	// Asked is the number of objects whose release is asked for, and Oldest since when that is so for the first of them.
	Asked  int
	Oldest time.Time
	// Blocked is the number of objects that are not reconciled because they are being released.
	Blocked int
}

// Stats returns the current numbers.
func (o *Ownership) Stats() Stats {
	stats := Stats{Owned: map[schema.GroupKind]int{}, Blocked: o.gate.blockedObjects()}
	o.owned.Range(func(kind, count any) bool {
		stats.Owned[kind.(schema.GroupKind)] = int(count.(*atomic.Int64).Load())
		return true
	})
	o.asked.Lock()
	defer o.asked.Unlock()
	stats.Asked = len(o.asked.since)
	for _, since := range o.asked.since {
		if stats.Oldest.IsZero() || since.Before(stats.Oldest) {
			stats.Oldest = since
		}
	}
	return stats
}
