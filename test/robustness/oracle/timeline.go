package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// timeline is a history, grouped by object, process and Lease.
type timeline struct {
	// end is the time of the last event.
	end        time.Time
	objects    []*object
	byName     map[history.Object]*object
	processes  map[string]*process
	leases     map[string][]observedLease // by shard
	reconciles []*reconcile
	asked      []history.Event
	// epochs are the sets of members, ordered by version. The first is before any Lease.
	epochs []epoch
}

// object has all writes of an object, ordered by version.
type object struct {
	history.Object
	versions []observedWrite
}

// observedWrite is a write with the time at which it was observed.
type observedWrite struct {
	history.Write
	at time.Time
}

// observedLease is a write of a Lease with the time at which it was observed.
type observedLease struct {
	history.Lease
	at time.Time
}

// epoch is a set of members, starting with a write of a Lease.
type epoch struct {
	version uint64
	at      time.Time
	members *ring.Ring
}

// owner returns the owner of an object by the ring, or "".
func (e *epoch) owner(o history.Object) string {
	return e.members.Owner(assignment.Key(o.GroupKind(), o.Namespace, o.Name))
}

func newTimeline(events []history.Event) *timeline {
	t := &timeline{
		byName: map[history.Object]*object{}, processes: map[string]*process{}, leases: map[string][]observedLease{},
		epochs: []epoch{{members: ring.New(nil)}},
	}
	for i := range events {
		t.end = events[i].Time
		t.add(&events[i])
	}
	t.finish()
	t.makeEpochs()
	return t
}

func (t *timeline) add(event *history.Event) {
	switch event.Type {
	case history.Wrote:
		known := t.byName[event.Write.Object]
		if known == nil {
			known = &object{Object: event.Write.Object}
			t.byName[event.Write.Object] = known
			t.objects = append(t.objects, known)
		}
		known.versions = append(known.versions, observedWrite{*event.Write, event.Time})
	case history.Leased:
		shard := event.Lease.Shard
		t.leases[shard] = append(t.leases[shard], observedLease{*event.Lease, event.Time})
	case history.Requested:
		t.asked = append(t.asked, *event)
	case history.Started, history.Ended:
		t.addReconcile(event)
	case history.Joined, history.Left, history.Lost, history.Gone, history.Paused, history.Resumed:
		t.process(event.Process).note(event)
	}
}

// finish closes everything that is open at the end of the run.
func (t *timeline) finish() {
	for _, p := range t.processes {
		p.finish(t.end)
	}
	for _, r := range t.reconciles {
		if !r.ended {
			r.end = t.end
			if p := t.process(r.process); !p.gone.IsZero() {
				r.end = p.gone
			}
		}
	}
	for _, o := range t.objects {
		slices.SortStableFunc(o.versions, func(a, b observedWrite) int { return cmp.Compare(a.Version, b.Version) })
		o.versions = slices.CompactFunc(o.versions, func(a, b observedWrite) bool { return a.Version == b.Version }) // two watchers recorded it
	}
	for _, writes := range t.leases {
		slices.SortStableFunc(writes, func(a, b observedLease) int { return cmp.Compare(a.Version, b.Version) })
	}
}

// makeEpochs finds the changes of the members.
func (t *timeline) makeEpochs() {
	all := slices.Concat(slices.Collect(maps.Values(t.leases))...)
	slices.SortFunc(all, func(a, b observedLease) int { return cmp.Compare(a.Version, b.Version) })
	var shards, leaving []string
	rings := map[string]*ring.Ring{} // calculating one takes milliseconds, and sets repeat
	for i := range all {
		write := &all[i]
		this := func(shard string) bool { return shard == write.Shard }
		shards, leaving = slices.DeleteFunc(shards, this), slices.DeleteFunc(leaving, this)
		switch {
		case write.Held() && write.Leaving:
			leaving = append(leaving, write.Shard)
		case write.Held():
			shards = append(shards, write.Shard)
		}
		if t.epochs[len(t.epochs)-1].members.Equal(ring.New(shards, leaving...)) {
			continue
		}
		id := fmt.Sprint(slices.Sorted(slices.Values(shards)), slices.Sorted(slices.Values(leaving)))
		if rings[id] == nil {
			rings[id] = ring.New(shards, leaving...)
		}
		t.epochs = append(t.epochs, epoch{write.Version, write.at, rings[id]})
	}
}

// epochAt returns the index of the epoch of a version.
func (t *timeline) epochAt(version uint64) int {
	after, _ := slices.BinarySearchFunc(t.epochs, version, func(e epoch, v uint64) int {
		if e.version <= v {
			return -1
		}
		return 1
	})
	return after - 1
}

// liveWindows returns when a shard held its Lease and, if its processes are known, one of them was running.
func (t *timeline) liveWindows(shard string) windows {
	var held []Window
	writes := t.leases[shard]
	for i := range writes {
		if writes[i].Held() {
			held = append(held, Window{writes[i].at, t.until(i, len(writes), func(n int) time.Time { return writes[n].at })})
		}
	}
	var running []Window
	known := false
	for _, p := range t.processes {
		if p.shard == shard {
			known = true
			running = append(running, p.running...)
		}
	}
	if !known {
		return union(held...)
	}
	return union(held...).and(union(running...))
}

// until returns the time of the next of n events, or the end of the run.
func (t *timeline) until(i, n int, at func(int) time.Time) time.Time {
	if i+1 < n {
		return at(i + 1)
	}
	return t.end
}

// labelWindows returns when an object existed with each shard label.
func (t *timeline) labelWindows(o *object) map[string]windows {
	all := map[string][]Window{}
	for i := range o.versions {
		if v := &o.versions[i]; !v.Deleted {
			all[v.Shard] = append(all[v.Shard], Window{v.at, t.until(i, len(o.versions), func(n int) time.Time { return o.versions[n].at })})
		}
	}
	result := map[string]windows{}
	for shard, times := range all {
		result[shard] = union(times...)
	}
	return result
}

// at returns the object at a version, or nil if it did not exist.
func (o *object) at(version uint64) *observedWrite {
	var found *observedWrite
	for i := range o.versions {
		if o.versions[i].Version <= version {
			found = &o.versions[i]
		}
	}
	if found == nil || found.Deleted {
		return nil
	}
	return found
}

// last returns the object in the end, or nil if it was deleted.
func (o *object) last() *observedWrite {
	if last := &o.versions[len(o.versions)-1]; !last.Deleted {
		return last
	}
	return nil
}
