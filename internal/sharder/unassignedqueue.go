package sharder

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// assignAfter is the delay from the admission of an object to the list. By then the object is
	// stored, and so are others that were created with it.
	assignAfter = 300 * time.Millisecond
	// minPause is the pause between two lists for one ring. It doubles up to maxPause while objects
	// keep coming, and is reset after maxPause without any.
	minPause, maxPause = 500 * time.Millisecond, 2 * time.Second
	// maxListedNamespaces is how many namespaces are listed one by one before the whole cluster is.
	maxListedNamespaces = 8
	// maxConcurrentRings is how many rings are listed at the same time.
	maxConcurrentRings = 4
)

// unassignedQueue assigns objects that passed the webhook without a shard soon after their creation,
// instead of with the next rescue. Every replica does so for the requests that it served; if two find
// the same object, one write succeeds.
//
// The cost does not depend on the number of objects: a ring is listed at most twice a second, only in the
// resources and namespaces concerned, and less often while objects keep coming.
type unassignedQueue struct {
	// assign assigns the unlabelled objects of a resource, in some namespaces or in all.
	assign func(ctx context.Context, ring string, resource schema.GroupResource, namespaces ...string) error
	clock  clock.WithTicker
	wake   chan struct{}

	mu    sync.Mutex
	rings map[string]*pendingRing
}

// pendingRing has the resources and namespaces to list for a ring.
type pendingRing struct {
	notBefore time.Time
	pause     time.Duration
	// resources have the namespaces to list, or nil for all namespaces.
	resources map[schema.GroupResource]map[string]bool
	running   bool
}

var _ manager.LeaderElectionRunnable = &unassignedQueue{}

func newUnassignedQueue(ticking clock.WithTicker, assign func(context.Context, string, schema.GroupResource, ...string) error) *unassignedQueue {
	return &unassignedQueue{assign: assign, clock: ticking, wake: make(chan struct{}, 1), rings: map[string]*pendingRing{}}
}

// add enqueues a resource and namespace of a ring. It never blocks, because a user's request waits for it.
func (q *unassignedQueue) add(ring string, resource schema.GroupResource, namespace string) {
	q.mu.Lock()
	q.addLocked(ring, resource, namespace)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

func (q *unassignedQueue) addLocked(ring string, resource schema.GroupResource, namespace string) {
	now := q.clock.Now()
	pending := q.rings[ring]
	if pending == nil {
		pending = &pendingRing{pause: minPause}
		q.rings[ring] = pending
	}
	if len(pending.resources) == 0 && !pending.running {
		if now.Sub(pending.notBefore) > maxPause {
			pending.pause = minPause
		}
		if at := now.Add(assignAfter); pending.notBefore.Before(at) {
			pending.notBefore = at
		}
	}
	namespaces, found := pending.resources[resource]
	switch {
	case found && namespaces == nil: // all namespaces
	case len(namespaces) >= maxListedNamespaces && !namespaces[namespace]:
		pending.resources[resource] = nil
	case !found:
		if pending.resources == nil {
			pending.resources = map[schema.GroupResource]map[string]bool{}
		}
		pending.resources[resource] = map[string]bool{namespace: true}
	default:
		namespaces[namespace] = true
	}
}

// NeedLeaderElection is false: every replica serves the webhook.
func (q *unassignedQueue) NeedLeaderElection() bool { return false }

// Start assigns the objects of enqueued rings until ctx ends.
func (q *unassignedQueue) Start(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	free := make(chan struct{}, maxConcurrentRings)
	for {
		ring, resources, wait := q.next()
		if ring == "" {
			if !q.sleep(ctx, wait) {
				return nil
			}
			continue
		}
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		group.Go(func() {
			defer func() { <-free }()
			q.process(ctx, ring, resources)
		})
	}
}

// next returns a ring that is due, or the time until one is. If no ring is pending, both are zero.
func (q *unassignedQueue) next() (ring string, resources map[schema.GroupResource]map[string]bool, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	for name, pending := range q.rings {
		switch {
		case pending.running:
		case len(pending.resources) == 0:
			if now.Sub(pending.notBefore) > maxPause {
				delete(q.rings, name)
			}
		case !now.Before(pending.notBefore):
			resources, pending.resources, pending.running = pending.resources, nil, true
			return name, resources, 0
		default:
			if left := pending.notBefore.Sub(now); wait == 0 || left < wait {
				wait = left
			}
		}
	}
	return "", nil, wait
}

func (q *unassignedQueue) sleep(ctx context.Context, wait time.Duration) bool {
	var due <-chan time.Time
	if wait > 0 {
		timer := q.clock.NewTimer(wait)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-q.wake:
	case <-due:
	}
	return true
}

// process assigns the unlabelled objects of a ring.
func (q *unassignedQueue) process(ctx context.Context, ring string, resources map[schema.GroupResource]map[string]bool) {
	for resource, namespaces := range resources {
		var named []string
		for namespace := range namespaces {
			if namespace == "" { // a cluster-scoped resource
				named = nil
				break
			}
			named = append(named, namespace)
		}
		if err := q.assign(ctx, ring, resource, named...); err != nil && ctx.Err() == nil {
			// The leader's rescue finds these objects as well, and reports what it cannot write.
			logf.FromContext(ctx).V(1).Info("Failed to assign new objects", "controllerRing", ring, "resource", resource, "error", err.Error())
		}
	}
	q.mu.Lock()
	if pending := q.rings[ring]; pending != nil {
		pending.running = false
		pending.notBefore = q.clock.Now().Add(pending.pause)
		pending.pause = min(2*pending.pause, maxPause)
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
