// Package members tracks the shards of all rings by their Leases.
//
// It promises that a ring is calculated only when its set of shards has changed, that all callers get
// the same one, and that reading it never blocks, because users' requests wait for it. The cost of a
// renewal does not depend on the number of rings and shards. Shards that join at about the same time
// change the ring once; a shard that leaves or dies changes it at once.
package members

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

const (
	// joinInterval debounces joins: the first takes effect at once, and those within this time after it
	// together.
	joinInterval = 1500 * time.Millisecond
	// maxTokens is the number of tokens of all rings that are kept for lookups, with 9 bytes each.
	maxTokens = 1_000_000
	// evictTablesAfter is how long a ring's table is kept without a lookup. Building it takes a few
	// milliseconds.
	evictTablesAfter = time.Minute
)

// Source returns rings by name. The ring is nil if it is not known; the channel is closed when it has changed.
type Source interface {
	Ring(name string) (*ring.Ring, <-chan struct{})
}

// Tracker tracks Leases. It is safe for concurrent use.
type Tracker struct {
	clock clock.PassiveClock
	// timers delays joins and evicts tables. It is nil if the clock only tells the time.
	timers clock.WithDelayedExecution
	// calculated is called when the members of a ring have changed.
	calculated func(ring string)
	// ResourcesChanged is called, if set, when a shard declares other resources. It must not block.
	ResourcesChanged func(ring string)
	tables           *ring.Tables
	evicting         atomic.Bool // a timer is set
	// published has a *view for each ring by name, so that Ring does not need the mutex.
	published sync.Map

	mu     sync.Mutex
	leases map[types.NamespacedName]*observedLease
	rings  map[string]*state
}

// state is the state of a ring that was declared or that Leases name.
type state struct {
	candidates
	declared bool
	// deleted are members whose Leases were deleted, until they have certainly stopped. Their number is limited
	// by that of the members.
	deleted map[types.NamespacedName]*observedLease
	// recorded are the namespaces whose shards were members according to the ring's status, before this process
	// observed Leases.
	recorded []string
	*view
	// joined is when a join was last published.
	joined time.Time
	// pending publishes the debounced joins, or is nil.
	pending clock.Timer
	// withheld is whether a departure is not published because no ready shard could take the objects.
	withheld bool
}

// view is the published version of a ring.
type view struct {
	current *ring.Ring
	changed chan struct{} // closed with the next change of current
	since   time.Time     // when current was published
}

// New returns an empty Tracker. It calls the function when the members of a ring have changed. If the clock does
// not implement clock.WithDelayedExecution, each join takes effect at once.
func New(passive clock.PassiveClock, calculated func(ring string)) *Tracker {
	t := &Tracker{
		clock:      passive,
		calculated: calculated,
		leases:     map[types.NamespacedName]*observedLease{},
		rings:      map[string]*state{},
	}
	t.timers, _ = passive.(clock.WithDelayedExecution)
	t.tables = ring.NewTables(maxTokens, t.evictLater)
	return t
}

// evictLater sets a timer that evicts unused tables.
func (t *Tracker) evictLater() {
	if t.timers == nil || !t.evicting.CompareAndSwap(false, true) {
		return
	}
	t.after(evictTablesAfter, func() {
		t.evicting.Store(false)
		if t.tables.EvictUnused() > 0 {
			t.evictLater()
		}
	})
}

// after calls a function after a delay, in its own goroutine: some clocks call it with their mutex locked.
func (t *Tracker) after(delay time.Duration, call func()) clock.Timer {
	return t.timers.AfterFunc(delay, func() { go call() })
}

// AllNamespaces stands for all namespaces in a ring's record of its shards' namespaces.
const AllNamespaces = "*"

// Declare adds a ring, or changes the namespaces from which it accepts shards. Members in other namespaces stay
// members, and are cordoned. The recorded namespaces show which shards were members before this process observed
// their Leases; only the first call for a ring uses them.
func (t *Tracker) Declare(name string, namespaces []string, recorded ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.state(name)
	if !known.declared {
		known.declared = true
		known.view = &view{current: &ring.Ring{}, changed: make(chan struct{})}
		t.published.Store(name, known.view)
		known.recorded = slices.Clone(recorded)
		switch {
		case len(recorded) == 0:
			known.restrict(namespaces, false)
		case slices.Contains(recorded, AllNamespaces):
			known.restrict(nil, false)
		default:
			known.restrict(recorded, false)
		}
	}
	known.restrict(namespaces, true)
	t.publish(name, known, false)
}

// state returns the state of a ring, declared or not.
func (t *Tracker) state(name string) *state {
	known := t.rings[name]
	if known == nil {
		known = &state{candidates: newCandidates(nil), deleted: map[types.NamespacedName]*observedLease{}}
		t.rings[name] = known
	}
	return known
}

// Drop removes a ring, and closes the channel that Ring returned.
func (t *Tracker) Drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.rings[name]
	if known == nil || !known.declared {
		return
	}
	known.stopPending()
	t.published.Delete(name)
	close(known.changed)
	known.declared, known.view, known.joined, known.recorded = false, nil, time.Time{}, nil
	known.restrict(nil, false)
	t.forgetUnused(name, known)
}

// forgetUnused removes a ring that is neither declared nor named by a Lease.
func (t *Tracker) forgetUnused(name string, known *state) {
	if !known.declared && len(known.byName) == 0 {
		delete(t.rings, name)
	}
}

// Observe records the current version of a Lease. The time of a renewal is when this process observed it,
// because clocks of other processes may differ.
func (t *Tracker) Observe(lease *coordinationv1.Lease) { t.observe(lease, true) }

// ObserveListed records a Lease of the initial list. Its shard may have joined long ago and own objects, so it is a
// member at once.
func (t *Tracker) ObserveListed(lease *coordinationv1.Lease) { t.observe(lease, false) }

func (t *Tracker) observe(lease *coordinationv1.Lease, debounce bool) {
	now := newObservedLease(lease)
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.leases[now.key]
	if before != nil && before.ring != now.ring {
		t.withdraw(before)
		before = nil
	}
	if before == nil {
		before = t.takeDeleted(&now)
	}
	if before != nil && before.renewal == now.renewal {
		now.Seen = before.Seen
	} else {
		now.Seen = t.clock.Now()
	}
	if before != nil && before.resources != now.resources && t.ResourcesChanged != nil {
		defer t.ResourcesChanged(now.ring) // after the record, and before the mutex is unlocked
	}
	now.facts.excluded = t.excluded(before, &now, !debounce)
	if before != nil && before.facts == now.facts {
		*before = now
		known := t.rings[now.ring]
		if known.renewed(before); known.withheld {
			t.publish(now.ring, known, debounce)
		}
		return
	}
	t.leases[now.key] = &now
	known := t.state(now.ring)
	wasMember := before != nil && known.isMember(before)
	known.replace(before, &now)
	if known.pending != nil && debounce && !wasMember && known.isMember(&now) && !now.Leaving && !known.full() {
		return // the pending timer publishes it
	}
	t.publish(now.ring, known, debounce)
}

// excluded reports whether a Lease is a member's although its ring accepts no shards from its namespace: it was a
// member before, or it was listed and the ring's record says so. Once the Lease is not held, the shard cannot return.
func (t *Tracker) excluded(before, now *observedLease, listed bool) bool {
	if !now.Held() || now.facts.tooLong {
		return false
	}
	if before != nil && before.facts.excluded && before.facts.uid == now.facts.uid {
		return true
	}
	known := t.rings[now.ring]
	return listed && known != nil && known.declared && known.admits(now.key) == WrongNamespace &&
		(slices.Contains(known.recorded, AllNamespaces) || slices.Contains(known.recorded, now.key.Namespace))
}

// withdraw removes a deleted Lease from its ring. A member notices the deletion with its next renewal at the
// earliest. It stays a member until it has certainly stopped, and is assigned nothing.
func (t *Tracker) withdraw(gone *observedLease) {
	known, wait := t.rings[gone.ring], gone.StoppedAt().Sub(t.clock.Now())
	if t.timers == nil || !known.declared || !known.isMember(gone) || wait <= 0 {
		known.replace(gone, nil)
	} else {
		silent := *gone
		silent.facts.deleted = true
		known.replace(gone, &silent)
		known.deleted[gone.key] = &silent
		t.after(wait, func() { t.stopped(&silent) })
	}
	t.publish(gone.ring, known, true)
	t.forgetUnused(gone.ring, known)
}

// stopped removes a shard whose Lease was deleted, and which has certainly stopped.
func (t *Tracker) stopped(silent *observedLease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.rings[silent.ring]
	if known == nil || known.deleted[silent.key] != silent {
		return // there is a new Lease
	}
	delete(known.deleted, silent.key)
	known.replace(silent, nil)
	t.publish(silent.ring, known, true)
	t.forgetUnused(silent.ring, known)
}

// takeDeleted returns the deleted Lease that a Lease restores or replaces: a restarted container creates a new one,
// and works from then on. A Lease that may not join replaces none.
func (t *Tracker) takeDeleted(now *observedLease) *observedLease {
	known := t.rings[now.ring]
	if known == nil {
		return nil
	}
	gone := known.deleted[now.key]
	if gone == nil || gone.facts.uid != now.facts.uid && known.admits(now.key) != NotRefused {
		return nil
	}
	delete(known.deleted, now.key)
	return gone
}

// Forget removes a Lease that was deleted or has lost its ring label. This does not prove that its shard has stopped.
func (t *Tracker) Forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if gone := t.leases[key]; gone != nil {
		delete(t.leases, key)
		t.withdraw(gone)
	}
}

// publish makes the current members of a ring visible to readers, unless nothing has changed or a join
// is debounced.
func (t *Tracker) publish(name string, known *state, debounce bool) {
	if !known.declared {
		return
	}
	next := t.tables.Of(known.names())
	if known.current.Equal(next) {
		known.withheld = false
		known.stopPending()
		return
	}
	if known.withheld = t.noneReady(known, next); known.withheld {
		return
	}
	now, joins := t.clock.Now(), anyJoined(known.current, next)
	if debounce && t.timers != nil && joins && noneLeft(known.current, next) {
		if wait := known.joined.Add(joinInterval).Sub(now); wait > 0 {
			if known.pending == nil {
				known.pending = t.after(wait, func() { t.publishPending(name) })
			}
			return
		}
	}
	known.stopPending()
	if joins {
		known.joined = now
	}
	before := known.changed
	known.view = &view{current: next, changed: make(chan struct{}), since: now}
	t.calculated(name)
	t.published.Store(name, known.view)
	close(before) // after the new ring is visible
}

// noneReady reports whether there are shards to move objects to, but all of them have missed their renewals. When all
// stop at once, for example without permission to renew, objects would move from one dead shard to the next.
func (t *Tracker) noneReady(known *state, next *ring.Ring) bool {
	return len(next.Shards()) > 0 && !anyJoined(known.current, next) && !slices.ContainsFunc(known.members(), func(lease *observedLease) bool {
		state, _ := membership.StateOf(lease.Lease, known.renewals, t.clock.Now())
		return state == membership.Ready && !next.IsCordoned(lease.Shard) && !lease.facts.deleted
	})
}

// publishPending publishes the joins that were debounced.
func (t *Tracker) publishPending(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.rings[name]; known != nil && known.declared {
		known.stopPending()
		t.publish(name, known, false)
	}
}

func (s *state) stopPending() {
	if s.pending != nil {
		s.pending.Stop()
		s.pending = nil
	}
}

// anyJoined reports whether a shard that was not a member before owns keys.
func anyJoined(current, next *ring.Ring) bool {
	return slices.ContainsFunc(next.Shards(), func(shard string) bool { return !current.Has(shard) })
}

// noneLeft reports whether all members of the ring are unchanged, and all new ones own keys.
func noneLeft(current, next *ring.Ring) bool {
	return !slices.ContainsFunc(current.Members(), func(shard string) bool {
		return !next.Has(shard) || current.IsLeaving(shard) != next.IsLeaving(shard) || current.IsCordoned(shard) != next.IsCordoned(shard)
	}) && !slices.ContainsFunc(next.Members(), func(shard string) bool {
		return !current.Has(shard) && (next.IsLeaving(shard) || next.IsCordoned(shard))
	})
}

// Ring returns a ring, and a channel that is closed when it has changed. Both are nil if the ring was not declared.
func (t *Tracker) Ring(name string) (*ring.Ring, <-chan struct{}) {
	if shown, found := t.published.Load(name); found {
		return shown.(*view).current, shown.(*view).changed
	}
	return nil, nil
}

// Since returns when this process last observed a change of a ring's members.
func (t *Tracker) Since(name string) time.Time {
	if shown, found := t.published.Load(name); found {
		return shown.(*view).since
	}
	return time.Time{}
}
