package ownership

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// ErrTaken is the cause with which the context of a reconcile ends when another shard gets its object.
var ErrTaken = errors.New("the object is no longer this shard's")

// Key names a main object.
type Key struct {
	Kind schema.GroupKind
	types.NamespacedName
}

// gate knows which objects are being reconciled, and blocks new reconciles of those that are on their way to another shard.
// Without it a reconcile could begin on what a cache still shows of an object that was just released.
type gate struct {
	mu      sync.Mutex
	objects map[Key]*objectState
}

// objectState tracks the reconciles of one object and whether new ones may begin.
type objectState struct {
	running   map[*reconcileRun]struct{}
	blocked   bool          // no new reconcile may begin
	releasing bool          // a release is in progress
	idle      chan struct{} // closed when the last reconcile returns, if a release waits for that
	// releasedAt is the resourceVersion with which the object became another shard's, or "". The caches in unseen, a
	// bit each, have not shown that yet.
	releasedAt string
	unseen     uint64
	// refused is whether the last release was refused. The object is reconciled although its release is asked for.
	refused bool
	// unanswered is a release whose outcome is not known: it may still be applied.
	unanswered unansweredWrite
}

// unansweredWrite is a write with a precondition that was sent at some time and not answered.
type unansweredWrite struct {
	version string // of the precondition, or ""
	sentAt  time.Time
}

// reconcileRun is one call of a reconciler.
type reconcileRun struct{ stop context.CancelCauseFunc }

func newGate() *gate { return &gate{objects: map[Key]*objectState{}} }

func (g *gate) state(k Key) *objectState {
	if g.objects[k] == nil {
		g.objects[k] = &objectState{running: map[*reconcileRun]struct{}{}}
	}
	return g.objects[k]
}

// change calls a function with the state of an object, if there is anything to know about it.
func (g *gate) change(k Key, change func(*objectState)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if state := g.objects[k]; state != nil {
		change(state)
		g.tidy(k, state)
	}
}

// tidy forgets an object that there is nothing to know about.
func (g *gate) tidy(k Key, state *objectState) {
	if !state.blocked && !state.releasing && !state.refused && len(state.running) == 0 && g.objects[k] == state {
		delete(g.objects, k)
	}
}

// enter begins a reconcile, unless the object is being released. The context ends when another shard gets the object; leave
// ends the reconcile.
func (g *gate) enter(ctx context.Context, k Key) (running context.Context, leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	state := g.state(k)
	if state.blocked {
		return nil, nil, false
	}
	running, stop := context.WithCancelCause(ctx)
	run := &reconcileRun{stop: stop}
	state.running[run] = struct{}{}
	return running, func() {
		stop(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(state.running, run)
		if len(state.running) == 0 && state.idle != nil {
			close(state.idle)
			state.idle = nil
		}
		g.tidy(k, state)
	}, true
}

// block lets no reconcile begin any more, and returns a channel that is closed when none is left. It is for one caller at a
// time, until that calls done; others get nothing.
func (g *gate) block(k Key) (idle <-chan struct{}, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	state := g.state(k)
	if state.releasing {
		return nil, false
	}
	state.releasing, state.blocked = true, true
	if state.idle == nil {
		state.idle = make(chan struct{})
	}
	waiting := state.idle
	if len(state.running) == 0 {
		close(waiting)
		state.idle = nil
	}
	return waiting, true
}

// done ends what block began. The object stays blocked unless it was opened.
func (g *gate) done(k Key) { g.change(k, func(state *objectState) { state.releasing = false }) }

// interrupt ends the contexts of all reconciles.
func (g *gate) interrupt(k Key) {
	g.change(k, func(state *objectState) {
		for run := range state.running {
			run.stop(ErrTaken)
		}
	})
}

// open lets reconciles begin again.
func (g *gate) open(k Key) { g.change(k, (*objectState).open) }

func (s *objectState) open() {
	s.blocked, s.refused, s.releasedAt, s.unseen, s.unanswered = false, false, "", 0, unansweredWrite{}
}

// openRefused lets reconciles begin again although the release of the object is asked for.
func (g *gate) openRefused(k Key) {
	g.change(k, func(state *objectState) {
		state.open()
		state.refused = true
	})
}

// isRefused tells whether the last release was refused.
func (g *gate) isRefused(k Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.objects[k] != nil && g.objects[k].refused
}

// forgetRefusal notes that the release is no longer asked for.
func (g *gate) forgetRefusal(k Key) { g.change(k, func(state *objectState) { state.refused = false }) }

// sent notes a release that was sent at some time and not answered.
func (g *gate) sent(k Key, version string, at time.Time) {
	g.change(k, func(state *objectState) { state.unanswered = unansweredWrite{version: version, sentAt: at} })
}

// unansweredOf returns the last release that was not answered, if there is one.
func (g *gate) unansweredOf(k Key) unansweredWrite {
	g.mu.Lock()
	defer g.mu.Unlock()
	if state := g.objects[k]; state != nil {
		return state.unanswered
	}
	return unansweredWrite{}
}

// markReleased notes that the object is another shard's since a version. It stays blocked until all caches, of which there
// are some, have shown that.
func (g *gate) markReleased(k Key, version string, caches int) {
	g.change(k, func(state *objectState) { state.releasedAt, state.unseen = version, 1<<caches-1 })
}

// isReleased tells whether the object was released and not all caches have shown that.
func (g *gate) isReleased(k Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.objects[k] != nil && g.objects[k].releasedAt != ""
}

// observe notes that a cache shows a version of the object. If it is later than the one with which it was released, the
// object has come back.
func (g *gate) observe(k Key, version string, cache int) {
	g.change(k, func(state *objectState) {
		if state.releasedAt == "" {
			return
		}
		if order, err := resourceversion.CompareResourceVersion(version, state.releasedAt); err == nil && order > 0 {
			state.seen(cache)
		}
	})
}

// observeDeletion notes that a cache no longer has the object, since a version if that is known: it was deleted, or is
// another shard's. During its release it stays blocked; the release finds that out as well.
func (g *gate) observeDeletion(k Key, version string, cache int) {
	g.interrupt(k)
	g.change(k, func(state *objectState) {
		state.refused = false
		if state.releasedAt == "" {
			return
		}
		if version != "" {
			if order, err := resourceversion.CompareResourceVersion(version, state.releasedAt); err == nil && order < 0 {
				return // that was before it came back and was released again
			}
		}
		state.seen(cache)
	})
}

// seen notes a cache that knows of the release. With the last of them the object is open.
func (s *objectState) seen(cache int) {
	if s.unseen &^= 1 << cache; s.unseen == 0 {
		s.open()
	}
}

// blockedObjects is the number of objects of which no reconcile may begin.
func (g *gate) blockedObjects() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, state := range g.objects {
		if state.blocked {
			n++
		}
	}
	return n
}
