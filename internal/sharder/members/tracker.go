// Package members knows the shards of all rings, as this process has seen their Leases.
//
// It promises that a ring is calculated only when its set of shards has changed, that everybody
// who asks gets the same one, and that asking for it waits for nobody: it is on the path of users'
// requests. A renewal costs the same whatever the number of rings and shards. Shards that join at
// about the same time change the ring once; one that leaves or dies changes it at once.
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
	// joinInterval debounces joins: the first takes effect at once, those within this time after it take
	// effect together.
	joinInterval = 1500 * time.Millisecond
	// maxTokens is how many tokens of all rings are kept for lookups, with 9 bytes each.
	maxTokens = 1_000_000
	// evictTablesAfter is how long a ring's table is kept without a lookup. It takes a few milliseconds to
	// build it again.
	evictTablesAfter = time.Minute
)

// Source knows the shards of rings. The ring is nil if it is not known; the channel is closed when it
// has changed.
type Source interface {
	Ring(name string) (*ring.Ring, <-chan struct{})
}

// Tracker keeps what was seen of the Leases. Its methods may be called from several goroutines.
type Tracker struct {
	clock clock.PassiveClock
	// timers delays joins and evicts tables. It is nil if the clock only tells the time.
	timers clock.WithDelayedExecution
	// calculated is told each time that a ring has other members.
	calculated func(ring string)
	// Redeclared, if it is set, is told when a shard has declared other resources than before. It must not block.
	Redeclared func(ring string)
	tables     *ring.Tables
	evicting   atomic.Bool // a timer is set
	// published is what Ring answers with, a *view by the ring's name, without waiting for the mutex.
	published sync.Map

	mu     sync.Mutex
	leases map[types.NamespacedName]*observed
	rings  map[string]*state
}

// state is a ring that was declared, or that Leases name.
type state struct {
	candidates
	declared bool
	// deleted are members whose Leases are gone, until it is certain that they have stopped. Members are limited, and so are they.
	deleted map[types.NamespacedName]*observed
	// recorded are the namespaces whose shards were members when a sharder looked last, before this process did.
	recorded []string
	*view
	// joined is when a shard last joined, as others see it.
	joined time.Time
	// pending publishes the debounced joins, or is nil.
	pending clock.Timer
	// withheld is whether a departure is not published yet, because no other shard could work on the objects.
	withheld bool
}

// view is a ring as others see it.
type view struct {
	current *ring.Ring
	changed chan struct{} // closed with the next change of current
	since   time.Time     // when current became so
}

// New returns a Tracker that knows nothing yet. The function is told of each ring that has other
// members. With a clock that has no timers (clock.WithDelayedExecution) each join takes effect at once.
func New(passive clock.PassiveClock, calculated func(ring string)) *Tracker {
	t := &Tracker{
		clock:      passive,
		calculated: calculated,
		leases:     map[types.NamespacedName]*observed{},
		rings:      map[string]*state{},
	}
	t.timers, _ = passive.(clock.WithDelayedExecution)
	t.tables = ring.NewTables(maxTokens, t.evictLater)
	return t
}

// evictLater makes sure that tables do not stay for longer than they are used.
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

// after calls a function later, in a goroutine of its own: some clocks call it while they are locked.
func (t *Tracker) after(delay time.Duration, call func()) clock.Timer {
	return t.timers.AfterFunc(delay, func() { go call() })
}

// AllNamespaces stands for all namespaces where a ring records from which it takes shards.
const AllNamespaces = "*"

// Declare makes a ring known, or its namespaces. Members that are not in these any more stay members, and are cordoned. Which
// shards were members before this process began to look, it knows from the recorded namespaces, which only the first call
// for a ring needs.
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

// state returns what is known of a ring, declared or not.
func (t *Tracker) state(name string) *state {
	known := t.rings[name]
	if known == nil {
		known = &state{candidates: newCandidates(nil), deleted: map[types.NamespacedName]*observed{}}
		t.rings[name] = known
	}
	return known
}

// Drop forgets a ring. Those who wait for a change of it are told.
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

// forgetUnused removes what is known of a ring that is neither declared nor named by a Lease.
func (t *Tracker) forgetUnused(name string, known *state) {
	if !known.declared && len(known.byName) == 0 {
		delete(t.rings, name)
	}
}

// Observe notes what a Lease looks like now. The time of its renewal is this process's time of
// seeing it, whatever the Lease says.
func (t *Tracker) Observe(lease *coordinationv1.Lease) { t.observe(lease, true) }

// ObserveListed notes a Lease that was there before this process looked. Its shard may have joined long
// ago and have objects, so that it is a member at once.
func (t *Tracker) ObserveListed(lease *coordinationv1.Lease) { t.observe(lease, false) }

func (t *Tracker) observe(lease *coordinationv1.Lease, debounce bool) {
	now := read(lease)
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.leases[now.key]
	if before != nil && before.ring != now.ring {
		t.withdraw(before)
		before = nil
	}
	if before == nil {
		before = t.restored(&now)
	}
	if before != nil && before.renewal == now.renewal {
		now.Seen = before.Seen
	} else {
		now.Seen = t.clock.Now()
	}
	if before != nil && before.resources != now.resources && t.Redeclared != nil {
		defer t.Redeclared(now.ring) // when it is noted, but before others can ask
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
		return // it joins with others, for which the time has not come
	}
	t.publish(now.ring, known, debounce)
}

// excluded tells whether a Lease is a member's although its ring takes no shards from its namespace: it was one before, or
// it was listed and the ring's record says so. One that is not held any more is out, and does not come back.
func (t *Tracker) excluded(before, now *observed, listed bool) bool {
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

// withdraw takes a Lease from its ring. If its shard was a member, it finds out with its next renewal at the earliest, so
// that it stays one until it has stopped for certain, and gets nothing more. One that did not hold its Lease was out already.
func (t *Tracker) withdraw(gone *observed) {
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

// stopped takes a shard from its ring whose Lease has been gone for long enough.
func (t *Tracker) stopped(silent *observed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.rings[silent.ring]
	if known == nil || known.deleted[silent.key] != silent {
		return // it is back
	}
	delete(known.deleted, silent.key)
	known.replace(silent, nil)
	t.publish(silent.ring, known, true)
	t.forgetUnused(silent.ring, known)
}

// restored returns the Lease that was gone and is there again, if a Lease is that one or takes its place: a container that is
// started again makes another one, and works from then on. One that may not join takes nobody's place.
func (t *Tracker) restored(now *observed) *observed {
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

// Forget notes that a Lease is gone, or has lost the label of its ring. It does not prove that its shard has stopped.
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
	close(before) // those who hear of it find the new ring
}

// noneReady reports whether there are shards to move objects to, but all of them have missed their renewals: when all stop at
// once, as without permission to renew, objects would move from one dead shard to the next.
func (t *Tracker) noneReady(known *state, next *ring.Ring) bool {
	return len(next.Shards()) > 0 && !anyJoined(known.current, next) && !slices.ContainsFunc(known.members(), func(lease *observed) bool {
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

// anyJoined reports whether a shard owns keys that was not a member before.
func anyJoined(current, next *ring.Ring) bool {
	return slices.ContainsFunc(next.Shards(), func(shard string) bool { return !current.Has(shard) })
}

// noneLeft reports whether all members of the ring are still what they were, and those that join own keys.
func noneLeft(current, next *ring.Ring) bool {
	return !slices.ContainsFunc(current.Members(), func(shard string) bool {
		return !next.Has(shard) || current.IsLeaving(shard) != next.IsLeaving(shard) || current.IsCordoned(shard) != next.IsCordoned(shard)
	}) && !slices.ContainsFunc(next.Members(), func(shard string) bool {
		return !current.Has(shard) && (next.IsLeaving(shard) || next.IsCordoned(shard))
	})
}

// Ring returns a ring as it is now, and a channel that is closed when it has changed. The ring is
// nil if it was not declared.
func (t *Tracker) Ring(name string) (*ring.Ring, <-chan struct{}) {
	if shown, found := t.published.Load(name); found {
		return shown.(*view).current, shown.(*view).changed
	}
	return nil, nil
}

// Since returns when the members of a ring have changed last, as far as this process has seen.
func (t *Tracker) Since(name string) time.Time {
	if shown, found := t.published.Load(name); found {
		return shown.(*view).since
	}
	return time.Time{}
}
