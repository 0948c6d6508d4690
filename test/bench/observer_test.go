package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

// observer watches all objects and Leases, and counts writes and moves.
type observer struct {
	f *fixture

	mu      sync.Mutex
	objects map[id]*object
	live    map[string]bool // the shards that hold their Leases
	last    time.Time       // when an object was written last
	// moved is when an object of a resource moved last.
	moved map[schema.GroupVersionResource]time.Time
}

type id struct {
	resource schema.GroupVersionResource
	name     string
}

// object is what was observed of one since the last reset.
type object struct {
	owner         string
	writes, moves int
	drained       time.Duration // with the drain label
	drainedSince  time.Time
	// ownerless is the time during which its label named no live shard. A stopping shard works on each object until it hands it
	// over. The time until the next owner has observed the object is not included.
	ownerless time.Duration
	lostAt    time.Time
}

// observe returns an observer of all existing objects and Leases.
func (f *fixture) observe() *observer {
	f.b.Helper()
	o := &observer{f: f, objects: map[id]*object{}, live: map[string]bool{}, moved: map[schema.GroupVersionResource]time.Time{}}
	ctx, cancel := context.WithCancel(f.b.Context())
	f.b.Cleanup(cancel)
	leases, err := f.Clientset.CoordinationV1().Leases(f.Namespace).List(ctx, metav1.ListOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	for i := range leases.Items {
		o.observeLease(&leases.Items[i])
	}
	o.follow(ctx, leases.ResourceVersion, f.Clientset.CoordinationV1().Leases(f.Namespace).Watch, func(event watch.Event) {
		if lease, ok := event.Object.(*coordinationv1.Lease); ok {
			o.observeLease(lease)
		}
	})
	for _, resource := range []schema.GroupVersionResource{mains, children} {
		list, err := f.metadata.Resource(resource).Namespace(f.Namespace).List(ctx, metav1.ListOptions{LabelSelector: shardingv1alpha1.LabelShard(ringName)})
		f.Expect(err).NotTo(HaveOccurred())
		for i := range list.Items {
			o.observeObject(resource, watch.Added, &list.Items[i])
		}
		o.follow(ctx, list.ResourceVersion, f.metadata.Resource(resource).Namespace(f.Namespace).Watch, func(event watch.Event) {
			if metadata, ok := event.Object.(*metav1.PartialObjectMetadata); ok {
				o.observeObject(resource, event.Type, metadata)
			}
		})
	}
	return o
}

// follow calls see once for each change after a version, even if the API server ends a slow watch.
func (o *observer) follow(ctx context.Context, version string, begin func(context.Context, metav1.ListOptions) (watch.Interface, error), see func(watch.Event)) {
	o.f.b.Helper()
	changes, err := toolswatch.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: begin})
	o.f.Expect(err).NotTo(HaveOccurred())
	go func() {
		for event := range changes.ResultChan() {
			if event.Type == watch.Error {
				o.f.b.Errorf("the watch of the observer has failed: %v", event.Object)
				return
			}
			see(event)
		}
	}()
}

func (o *observer) observeLease(lease *coordinationv1.Lease) {
	if lease.Labels[shardingv1alpha1.LabelControllerRing] != ringName {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	alive := lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == lease.Name
	if alive == o.live[lease.Name] {
		return
	}
	o.live[lease.Name] = alive
	for _, tracked := range o.objects {
		if tracked.owner == lease.Name {
			o.updateOwnerless(tracked, time.Now())
		}
	}
}

// updateOwnerless adds up the time without a live owner.
func (o *observer) updateOwnerless(tracked *object, now time.Time) {
	switch alive := o.live[tracked.owner]; {
	case alive && !tracked.lostAt.IsZero():
		tracked.ownerless += now.Sub(tracked.lostAt)
		tracked.lostAt = time.Time{}
	case !alive && tracked.lostAt.IsZero():
		tracked.lostAt = now
	}
}

func (o *observer) observeObject(resource schema.GroupVersionResource, kind watch.EventType, found *metav1.PartialObjectMetadata) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, known := time.Now(), id{resource, found.Name}
	if kind == watch.Deleted {
		delete(o.objects, known)
		return
	}
	tracked := o.objects[known]
	if tracked == nil {
		tracked = &object{owner: found.Labels[shardingv1alpha1.LabelShard(ringName)]}
		o.objects[known] = tracked
		o.updateOwnerless(tracked, now)
		return
	}
	tracked.writes++
	o.last = now
	if owner := found.Labels[shardingv1alpha1.LabelShard(ringName)]; owner != tracked.owner {
		tracked.owner = owner
		tracked.moves++
		o.moved[resource] = now
		o.updateOwnerless(tracked, now)
	}
	switch _, draining := found.Labels[shardingv1alpha1.LabelDrain(ringName)]; {
	case draining && tracked.drainedSince.IsZero():
		tracked.drainedSince = now
	case !draining && !tracked.drainedSince.IsZero():
		tracked.drained += now.Sub(tracked.drainedSince)
		tracked.drainedSince = time.Time{}
	}
}

// reset sets all counts to zero.
func (o *observer) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, tracked := range o.objects {
		tracked.writes, tracked.moves, tracked.drained, tracked.ownerless = 0, 0, 0, 0
	}
	o.last = time.Time{}
}

// awaitOwners waits until the owner of every object, and of every child, is that of a ring of these shards. It returns when the last
// write was observed.
func (o *observer) awaitOwners(shards ...string) time.Time {
	o.f.b.Helper()
	wanted := ring.New(shards)
	o.f.Eventually(func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		wrong := 0
		for known, tracked := range o.objects {
			if tracked.owner != wanted.Owner(o.f.key(known.name)) || !tracked.drainedSince.IsZero() {
				wrong++
			}
		}
		return wrong
	}).Should(BeZero(), func() string { return "objects do not have their final owners: " + o.describe(wanted) })
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// describe lists some of the objects that do not have their final owners.
func (o *observer) describe(wanted *ring.Ring) string {
	const few = 10
	o.mu.Lock()
	defer o.mu.Unlock()
	var text strings.Builder
	count := map[schema.GroupVersionResource]int{}
	for known, tracked := range o.objects {
		want := wanted.Owner(o.f.key(known.name))
		if tracked.owner == want && tracked.drainedSince.IsZero() {
			continue
		}
		if count[known.resource]++; count[known.resource] <= few {
			fmt.Fprintf(&text, "\n%s %s: %s instead of %s, %d writes, draining %t", known.resource.Resource, known.name, tracked.owner, want, tracked.writes, !tracked.drainedSince.IsZero())
		}
	}
	return fmt.Sprintf("%v%s", count, text.String())
}

// owned waits until one of these shards owns every object. It returns when the last write was observed.
func (o *observer) owned(shards ...string) time.Time {
	o.f.b.Helper()
	members := ring.New(shards)
	o.f.Eventually(func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		wrong := 0
		for _, tracked := range o.objects {
			if !members.Has(tracked.owner) {
				wrong++
			}
		}
		return wrong
	}).Should(BeZero(), "objects without a live owner")
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// totals are over all objects of a resource since the last reset.
type totals struct {
	objects, moved, movedTwice, writes, moves int
	meanDrain, meanOwnerless                  time.Duration
}

func (o *observer) totals(resource schema.GroupVersionResource) totals {
	o.mu.Lock()
	defer o.mu.Unlock()
	var (
		sum                totals
		drained, ownerless time.Duration
	)
	for known, tracked := range o.objects {
		if known.resource != resource {
			continue
		}
		sum.objects++
		sum.writes += tracked.writes
		sum.moves += tracked.moves
		if tracked.moves > 0 {
			sum.moved++
		}
		if tracked.moves > 1 {
			sum.movedTwice++
		}
		drained += tracked.drained
		ownerless += tracked.ownerless
	}
	sum.meanDrain = drained / time.Duration(max(1, sum.moved))
	sum.meanOwnerless = ownerless / time.Duration(max(1, sum.objects))
	return sum
}
