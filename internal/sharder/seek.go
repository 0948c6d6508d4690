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
	// seekAfter is how long after its creation an object is sought. By then it is stored, and so are others that were
	// created with it.
	seekAfter = 300 * time.Millisecond
	// seekPause is the least time between two seeks of one ring, doubled up to seekPauseMost while there is always more
	// to seek, and forgotten after seekPauseMost without any.
	seekPause, seekPauseMost = 500 * time.Millisecond, 2 * time.Second
	// soughtNamespaces is how many namespaces are listed one by one.
	soughtNamespaces = 8
	// soughtRings is how many rings are sought at the same time.
	soughtRings = 4
)

// seeker looks for objects that passed the webhook without a shard, soon after they were created instead of with the next
// rescue. Every replica seeks what passed its own webhook: of two that find the same object, one is faster.
//
// What it costs does not depend on how many objects are created: a ring is sought twice a second at most, only in the
// resources and namespaces concerned, and less often the longer that lasts.
type seeker struct {
	// find assigns the unlabelled objects of a resource, in some namespaces or in all.
	find  func(ctx context.Context, ring string, resource schema.GroupResource, namespaces ...string) error
	clock clock.WithTicker
	wake  chan struct{}

	mu    sync.Mutex
	rings map[string]*sought
}

// sought is what has to be sought in a ring.
type sought struct {
	at    time.Time // not before
	pause time.Duration
	// resources have the namespaces to list, or nil for all of them.
	resources map[schema.GroupResource]map[string]bool
	busy      bool
}

var _ manager.LeaderElectionRunnable = &seeker{}

func newSeeker(ticking clock.WithTicker, find func(context.Context, string, schema.GroupResource, ...string) error) *seeker {
	return &seeker{find: find, clock: ticking, wake: make(chan struct{}, 1), rings: map[string]*sought{}}
}

// seek asks for a look at a resource of a ring. It never waits: a user's request does.
func (s *seeker) seek(ring string, resource schema.GroupResource, namespace string) {
	s.mu.Lock()
	s.note(ring, resource, namespace)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

func (s *seeker) note(ring string, resource schema.GroupResource, namespace string) {
	now := s.clock.Now()
	known := s.rings[ring]
	if known == nil {
		known = &sought{pause: seekPause}
		s.rings[ring] = known
	}
	if len(known.resources) == 0 && !known.busy {
		if now.Sub(known.at) > seekPauseMost {
			known.pause = seekPause
		}
		if at := now.Add(seekAfter); known.at.Before(at) {
			known.at = at
		}
	}
	namespaces, found := known.resources[resource]
	switch {
	case found && namespaces == nil: // all of them already
	case len(namespaces) >= soughtNamespaces && !namespaces[namespace]:
		known.resources[resource] = nil
	case !found:
		if known.resources == nil {
			known.resources = map[schema.GroupResource]map[string]bool{}
		}
		known.resources[resource] = map[string]bool{namespace: true}
	default:
		namespaces[namespace] = true
	}
}

// NeedLeaderElection is false: every replica serves the webhook.
func (s *seeker) NeedLeaderElection() bool { return false }

// Start seeks until ctx ends.
func (s *seeker) Start(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	free := make(chan struct{}, soughtRings)
	for {
		ring, resources, wait := s.next()
		if ring == "" {
			if !s.sleep(ctx, wait) {
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
			s.look(ctx, ring, resources)
		})
	}
}

// next takes a ring that is due, or returns how long to wait for one; 0 means until something is asked for.
func (s *seeker) next() (ring string, resources map[schema.GroupResource]map[string]bool, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	for name, known := range s.rings {
		switch {
		case known.busy:
		case len(known.resources) == 0:
			if now.Sub(known.at) > seekPauseMost {
				delete(s.rings, name)
			}
		case !now.Before(known.at):
			resources, known.resources, known.busy = known.resources, nil, true
			return name, resources, 0
		default:
			if left := known.at.Sub(now); wait == 0 || left < wait {
				wait = left
			}
		}
	}
	return "", nil, wait
}

func (s *seeker) sleep(ctx context.Context, wait time.Duration) bool {
	var due <-chan time.Time
	if wait > 0 {
		timer := s.clock.NewTimer(wait)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.wake:
	case <-due:
	}
	return true
}

// look seeks the objects of a ring.
func (s *seeker) look(ctx context.Context, ring string, resources map[schema.GroupResource]map[string]bool) {
	for resource, namespaces := range resources {
		var named []string
		for namespace := range namespaces {
			if namespace == "" { // of the cluster
				named = nil
				break
			}
			named = append(named, namespace)
		}
		if err := s.find(ctx, ring, resource, named...); err != nil && ctx.Err() == nil {
			// The leader's rescue finds these objects, too, and reports what it cannot write.
			logf.FromContext(ctx).V(1).Info("Could not assign new objects", "controllerRing", ring, "resource", resource, "error", err.Error())
		}
	}
	s.mu.Lock()
	if known := s.rings[ring]; known != nil {
		known.busy = false
		known.at = s.clock.Now().Add(known.pause)
		known.pause = min(2*known.pause, seekPauseMost)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
