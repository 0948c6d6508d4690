package moves

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// slots bounds how many requests are under way at the same time, over all rings and kinds, which keeps the API server
// responsive for others. A ring gets at most three quarters of them and one of its kinds half, and of those that wait the
// one that has fewest comes first: a kind whose writes hang does not hold up the others, nor a ring the other rings.
type slots struct {
	all, perRing, perUser int

	mu      sync.Mutex
	used    int
	held    map[user]int
	byRing  map[string]int
	waiting []*waiter
}

// user is a kind of a ring.
type user struct {
	ring string
	kind schema.GroupResource
}

type waiter struct {
	user    user
	granted chan struct{}
}

func newSlots(n int) *slots {
	return &slots{all: n, perRing: max(1, n-n/4), perUser: max(1, n-n/2), held: map[user]int{}, byRing: map[string]int{}}
}

func (s *slots) take(ctx context.Context, by user) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &waiter{user: by, granted: make(chan struct{})}
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
	case <-w.granted: // at the same moment
		s.freeLocked(by)
	default:
		s.remove(w)
	}
	return ctx.Err()
}

// tryTake takes a slot if one is free, without waiting.
func (s *slots) tryTake(by user) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= s.all || !s.admits(by) {
		return false
	}
	s.hold(by)
	return true
}

func (s *slots) free(by user) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeLocked(by)
}

func (s *slots) freeLocked(by user) {
	s.used--
	if s.held[by]--; s.held[by] == 0 {
		delete(s.held, by)
	}
	if s.byRing[by.ring]--; s.byRing[by.ring] == 0 {
		delete(s.byRing, by.ring)
	}
	s.grant()
}

// grant gives free slots to those that wait.
func (s *slots) grant() {
	for s.used < s.all {
		var next *waiter
		for _, w := range s.waiting {
			if s.admits(w.user) && (next == nil || s.held[w.user] < s.held[next.user]) {
				next = w
			}
		}
		if next == nil {
			return
		}
		s.remove(next)
		s.hold(next.user)
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

// admits tells whether a user may hold one more.
func (s *slots) admits(by user) bool { return s.held[by] < s.perUser && s.byRing[by.ring] < s.perRing }

func (s *slots) hold(by user) {
	s.used++
	s.held[by]++
	s.byRing[by.ring]++
}
