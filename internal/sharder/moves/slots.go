package moves

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// slots is a fair semaphore that bounds the number of concurrent requests over all rings and kinds, to keep the API
// server responsive for other clients. A ring gets at most three quarters of the slots and one of its kinds half, and
// the waiter with the fewest slots comes first, so that a kind or ring whose writes hang does not delay the others.
type slots struct {
	all, perRing, perKind int

	mu      sync.Mutex
	used    int
	byKind  map[slotKey]int
	byRing  map[string]int
	waiting []*waiter
}

// slotKey is a kind of a ring.
type slotKey struct {
	ring string
	kind schema.GroupResource
}

type waiter struct {
	key     slotKey
	granted chan struct{}
}

func newSlots(n int) *slots {
	return &slots{all: n, perRing: max(1, n-n/4), perKind: max(1, n-n/2), byKind: map[slotKey]int{}, byRing: map[string]int{}}
}

func (s *slots) acquire(ctx context.Context, key slotKey) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &waiter{key: key, granted: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.grant()
	s.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.granted: // concurrently
		s.releaseLocked(key)
	default:
		s.remove(w)
	}
	return ctx.Err()
}

// tryAcquire acquires a slot if one is free, without waiting.
func (s *slots) tryAcquire(key slotKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= s.all || !s.admits(key) {
		return false
	}
	s.use(key)
	return true
}

func (s *slots) release(key slotKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(key)
}

func (s *slots) releaseLocked(key slotKey) {
	s.used--
	if s.byKind[key]--; s.byKind[key] == 0 {
		delete(s.byKind, key)
	}
	if s.byRing[key.ring]--; s.byRing[key.ring] == 0 {
		delete(s.byRing, key.ring)
	}
	s.grant()
}

// grant gives free slots to waiters.
func (s *slots) grant() {
	for s.used < s.all {
		var next *waiter
		for _, w := range s.waiting {
			if s.admits(w.key) && (next == nil || s.byKind[w.key] < s.byKind[next.key]) {
				next = w
			}
		}
		if next == nil {
			return
		}
		s.remove(next)
		s.use(next.key)
		close(next.granted)
	}
}

func (s *slots) remove(gone *waiter) {
	for i, w := range s.waiting {
		if w == gone {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return
		}
	}
}

// admits reports whether a key may use one more slot.
func (s *slots) admits(key slotKey) bool {
	return s.byKind[key] < s.perKind && s.byRing[key.ring] < s.perRing
}

func (s *slots) use(key slotKey) {
	s.used++
	s.byKind[key]++
	s.byRing[key.ring]++
}
