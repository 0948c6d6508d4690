package oracle

import (
	"cmp"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// reconcile is one reconcile, from its start to its end or to that of its process.
type reconcile struct {
	history.Reconcile
	process, shard string
	start, end     time.Time
	ended          bool
}

// addReconcile takes the start or end of a reconcile in.
func (t *timeline) addReconcile(event *history.Event) {
	if event.What == history.Started {
		t.reconciles = append(t.reconciles, &reconcile{
			Reconcile: *event.Reconcile, process: event.Process, shard: event.Shard, start: event.Time,
		})
		return
	}
	for _, open := range slices.Backward(t.reconciles) {
		if open.process == event.Process && open.Number == event.Reconcile.Number {
			open.Reconcile, open.end, open.ended = *event.Reconcile, event.Time, true
			return
		}
	}
}

// overlaps looks for objects that were reconciled twice at a time (I1).
func (r *run) overlaps() {
	byObject := map[history.Object][]*reconcile{}
	for _, one := range r.reconciles {
		byObject[one.Object] = append(byObject[one.Object], one)
	}
	for object, all := range byObject {
		slices.SortFunc(all, func(a, b *reconcile) int { return a.start.Compare(b.start) })
		allowed := r.staleness(object)
		for i, first := range all {
			end := r.endOf(first)
			for _, second := range all[i+1:] {
				if !second.start.Before(end) {
					break
				}
				if both := earlier(end, r.endOf(second)); both.Sub(second.start) > allowed {
					r.found(Overlap, object, second.start, both, []string{first.process, second.process},
						"reconcile %d of %s was going on when reconcile %d of %s started", first.Number, first.shard, second.Number, second.shard)
				}
			}
		}
	}
}

// endOf is until when a reconcile counts: its end, or the pause of its process if that hung past its
// Lease. Between two instructions nobody can tell it, so it may still be there when it wakes up, but
// it has to end then.
func (r *run) endOf(one *reconcile) time.Time {
	p := r.process(one.process)
	if r.startedAsleep(p, one) {
		return one.start
	}
	lost := r.lostLease(p, r.Lag)
	for _, pause := range p.pauses {
		if pause.From.Before(one.start) || !pause.From.Before(one.end) {
			continue
		}
		past := !lost.IsZero() && !lost.Before(pause.From) && !lost.After(later(one.end, pause.To).Add(r.Lag))
		if past && one.end.Sub(pause.To) <= r.Wake {
			return pause.From
		}
	}
	return one.end
}

// startedAsleep reports whether a reconcile was noted right after its process woke up, and ended soon. The process may have
// been paused after it looked whether it is a member and before it noted the start: nothing can be done between those two.
func (r *run) startedAsleep(p *process, one *reconcile) bool {
	for _, pause := range p.pauses {
		if since := one.start.Sub(pause.To); since >= 0 && since <= notedAfterWaking && one.end.Sub(pause.To) <= r.Wake {
			return true
		}
	}
	return false
}

// notedAfterWaking is how long it can take a process that wakes up on a busy machine to note a start.
const notedAfterWaking = 250 * time.Millisecond

// starts looks for reconciles by somebody who no longer had the object, or the Lease (I1).
func (r *run) starts() {
	for _, one := range r.reconciles {
		p := r.process(one.process)
		if r.startedAsleep(p, one) {
			continue
		}
		allowed := r.staleness(one.Object)
		if p.woken(one.start) {
			allowed = 0 // it must look whether it is still a member before it goes on
		}
		if lost := r.lostLease(p, r.Lag); !lost.IsZero() && one.start.After(lost.Add(allowed)) {
			r.found(NoLease, one.Object, lost, one.start, []string{one.process},
				"reconcile %d started after the process had lost the lease of %s", one.Number, one.shard)
			continue
		}
		r.startedOnOwn(one, allowed)
	}
}

// startedOnOwn looks whether an object was the shard's own when it started to reconcile it.
func (r *run) startedOnOwn(one *reconcile, allowed time.Duration) {
	o := r.byName[one.Object]
	if o == nil {
		r.found(Foreign, one.Object, one.start, one.end, []string{one.process}, "%s reconciled an object that nobody has seen", one.shard)
		return
	}
	read, known := slices.BinarySearchFunc(o.versions, one.Version, func(s seen, v uint64) int { return cmp.Compare(s.Version, v) })
	if one.Version == 0 || !known {
		r.startedInTime(one, o, allowed)
		return
	}
	if owner := o.versions[read].Shard; owner != one.shard {
		r.found(Foreign, one.Object, o.versions[read].at, one.start, []string{one.process},
			"%s reconciled version %d, which belonged to %q", one.shard, one.Version, owner)
		return
	}
	if taken := o.taken(read); taken != nil && one.start.After(taken.at.Add(allowed)) {
		r.found(Foreign, one.Object, taken.at, one.start, []string{one.process},
			"%s started reconcile %d with version %d after the object had gone to %q with version %d",
			one.shard, one.Number, one.Version, taken.Shard, taken.Version)
	}
}

// startedInTime is for a reconcile that did not say which version it has read: the shard's label must
// have been on the object at a time when the shard can have seen it.
func (r *run) startedInTime(one *reconcile, o *object, allowed time.Duration) {
	for i := range o.versions {
		if o.versions[i].Shard != one.shard || one.start.Before(o.versions[i].at.Add(-r.Lag)) {
			continue
		}
		if taken := o.taken(i); taken == nil || !one.start.After(taken.at.Add(allowed)) {
			return
		}
	}
	r.found(Foreign, one.Object, one.start, one.end, []string{one.process},
		"%s started reconcile %d when the object was not its own", one.shard, one.Number)
}

// taken is the first write after a version that has another shard, or nil. A deletion has not: the
// last shard may look after what is left.
func (o *object) taken(version int) *seen {
	for i := version + 1; i < len(o.versions); i++ {
		if o.versions[i].Shard != o.versions[version].Shard {
			return &o.versions[i]
		}
	}
	return nil
}
