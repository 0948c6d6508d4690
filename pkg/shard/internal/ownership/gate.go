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

// ErrOwnershipLost is the cause with which the context of a reconcile ends when another shard gets its object.
var ErrOwnershipLost = errors.New("this shard no longer owns the object")

// Key names a main object.
type Key struct {
	Kind schema.GroupKind
	types.NamespacedName
}

// gate tracks the running reconciles of each object, and blocks new reconciles of objects that are being
// released. Without it, a reconcile could begin on a released object that a cache still shows.
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
	// releasedAt is the resourceVersion of the write that released the object, or "". unseen has a bit
	// for each cache that does not show the release yet.
	releasedAt string
	unseen     uint64
	// refused is true if the last release was refused or failed before it wrote anything. The object is
	// then reconciled although it is being drained.
	refused bool
	// lagging is true if the last release found that the caches differ.
	lagging bool
	// unanswered is a release whose outcome is unknown: it may still be applied.
	unanswered unansweredWrite
}

// unansweredWrite is a write with a precondition that got no response.
type unansweredWrite struct {
	version string // resourceVersion of the precondition, or ""
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

// change calls a function with the state of an object, if it has one.
func (g *gate) change(k Key, change func(*objectState)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if state := g.objects[k]; state != nil {
		change(state)
		g.deleteUnused(k, state)
	}
}

// deleteUnused deletes the state of an object that has no reconcile and no release.
func (g *gate) deleteUnused(k Key, state *objectState) {
	if !state.blocked && !state.releasing && !state.refused && len(state.running) == 0 && g.objects[k] == state {
		delete(g.objects, k)
	}
}

// enter begins a reconcile, unless the object is being released. Its context ends when another shard gets
// the object. The caller must call leave after the reconcile.
func (g *gate) enter(ctx context.Context, k Key) (reconcileCtx context.Context, leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	state := g.state(k)
	if state.blocked {
		return nil, nil, false
	}
	reconcileCtx, stop := context.WithCancelCause(ctx)
	run := &reconcileRun{stop: stop}
	state.running[run] = struct{}{}
	return reconcileCtx, func() {
		stop(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(state.running, run)
		if len(state.running) == 0 && state.idle != nil {
			close(state.idle)
			state.idle = nil
		}
		g.deleteUnused(k, state)
	}, true
}

// block begins a release: it blocks new reconciles of an object and returns a channel that is closed when
// none is running. ok is false while another release is in progress; otherwise call endRelease afterwards.
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
	allDone := state.idle
	if len(state.running) == 0 {
		close(allDone)
		state.idle = nil
	}
	return allDone, true
}

// endRelease ends the release that block began. The object stays blocked unless open was called.
func (g *gate) endRelease(k Key) { g.change(k, func(state *objectState) { state.releasing = false }) }

// interrupt cancels the contexts of all reconciles of an object.
func (g *gate) interrupt(k Key) {
	g.change(k, func(state *objectState) {
		for run := range state.running {
			run.stop(ErrOwnershipLost)
		}
	})
}

// open unblocks an object.
func (g *gate) open(k Key) { g.change(k, (*objectState).open) }

func (s *objectState) open() {
	s.blocked, s.refused, s.lagging, s.releasedAt, s.unseen, s.unanswered = false, false, false, "", 0, unansweredWrite{}
}

// openRefused unblocks an object whose release was refused, although it is still being drained.
func (g *gate) openRefused(k Key) {
	g.change(k, func(state *objectState) {
		state.open()
		state.refused = true
	})
}

// openUnwritten unblocks an object whose release has failed, unless an earlier write may still be applied.
// lagging is true if it failed because the caches differ.
func (g *gate) openUnwritten(k Key, lagging bool) {
	g.change(k, func(state *objectState) {
		if state.unanswered.version == "" {
			state.open()
			state.refused = true
		}
		state.lagging = lagging
	})
}

// isLagging reports whether the last release found that the caches differ.
func (g *gate) isLagging(k Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.objects[k] != nil && g.objects[k].lagging
}

// isWaiting reports whether the object is blocked, or its release waits until the caches agree.
func (g *gate) isWaiting(k Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.objects[k] != nil && (g.objects[k].blocked || g.objects[k].lagging)
}

// isRefused reports whether the last release was refused.
func (g *gate) isRefused(k Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.objects[k] != nil && g.objects[k].refused
}

// forgetRefusal resets a refusal, when the drain is withdrawn.
func (g *gate) forgetRefusal(k Key) { g.change(k, func(state *objectState) { state.refused = false }) }

// markUnanswered records a release that got no response.
func (g *gate) markUnanswered(k Key, version string, sentAt time.Time) {
	g.change(k, func(state *objectState) { state.unanswered = unansweredWrite{version: version, sentAt: sentAt} })
}

// unansweredOf returns the last release that got no response, if there is one.
func (g *gate) unansweredOf(k Key) unansweredWrite {
	g.mu.Lock()
	defer g.mu.Unlock()
	if state := g.objects[k]; state != nil {
		return state.unanswered
	}
	return unansweredWrite{}
}

// markReleased records the version that released an object. The object stays blocked until all caches of
// its kind show the release.
func (g *gate) markReleased(k Key, version string, caches int) {
	g.change(k, func(state *objectState) { state.releasedAt, state.unseen = version, 1<<caches-1 })
}

// isReleased reports whether the object was released and not all caches show that yet.
func (g *gate) isReleased(k Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.objects[k] != nil && g.objects[k].releasedAt != ""
}

// observe records that a cache shows a version of the object. If the version is later than the release,
// the object was assigned to this shard again.
func (g *gate) observe(k Key, version string, cache int) {
	g.change(k, func(state *objectState) {
		if state.releasedAt == "" {
			return
		}
		if order, err := resourceversion.CompareResourceVersion(version, state.releasedAt); err == nil && order > 0 {
			state.markSeen(cache)
		}
	})
}

// observeDeletion records that a cache no longer has the object, because it was deleted or another shard
// owns it. version is "" if it is unknown. It does not unblock an object while its release is in progress.
func (g *gate) observeDeletion(k Key, version string, cache int) {
	g.interrupt(k)
	g.change(k, func(state *objectState) {
		state.refused = false
		if state.releasedAt == "" {
			return
		}
		if version != "" {
			if order, err := resourceversion.CompareResourceVersion(version, state.releasedAt); err == nil && order < 0 {
				return // this event is older than the last release
			}
		}
		state.markSeen(cache)
	})
}

// markSeen records a cache that shows the release. The last of them unblocks the object.
func (s *objectState) markSeen(cache int) {
	if s.unseen &^= 1 << cache; s.unseen == 0 {
		s.open()
	}
}

// blockedObjects returns the number of blocked objects.
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
