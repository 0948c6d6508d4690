package oracle

import (
	"cmp"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// reconcile is a reconcile, from its start to its end or the end of its process.
type reconcile struct {
	history.Reconcile
	process, shard string
	start, end     time.Time
	ended          bool
}

// addReconcile adds the start or end of a reconcile.
func (t *timeline) addReconcile(event *history.Event) {
	if event.Type == history.Started {
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

// overlaps finds objects that were reconciled twice at the same time (I1).
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
						"reconcile %d of %s was running when reconcile %d of %s started", first.Number, first.shard, second.Number, second.shard)
				}
			}
		}
	}
}

// endOf returns the end of a reconcile, or the start of the pause of its process if that was paused past its Lease:
// the reconcile may still be running when the process is resumed, but must end soon.
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

// startedAsleep reports whether a reconcile was recorded right after its process was resumed, and ended soon. The process
// may have been paused between the check of its membership and the record of the start, which cannot be atomic.
func (r *run) startedAsleep(p *process, one *reconcile) bool {
	for _, pause := range p.pauses {
		if since := one.start.Sub(pause.To); since >= 0 && since <= notedAfterWaking && one.end.Sub(pause.To) <= r.Wake {
			return true
		}
	}
	return false
}

// notedAfterWaking is the maximum time from the resume of a process on a busy machine to the record of a start.
const notedAfterWaking = 250 * time.Millisecond

// starts finds reconciles by processes that no longer owned the object, or held the Lease (I1).
func (r *run) starts() {
	for _, one := range r.reconciles {
		p := r.process(one.process)
		if r.startedAsleep(p, one) {
			continue
		}
		allowed := r.staleness(one.Object)
		if p.resumedBefore(one.start) {
			allowed = 0 // it must check its membership first
		}
		if lost := r.lostLease(p, r.Lag); !lost.IsZero() && one.start.After(lost.Add(allowed)) {
			r.found(NoLease, one.Object, lost, one.start, []string{one.process},
				"reconcile %d started after the process had lost the lease of %s", one.Number, one.shard)
			continue
		}
		r.startedOnOwn(one, allowed)
	}
}

// startedOnOwn checks that the shard owned the object when it started to reconcile it.
func (r *run) startedOnOwn(one *reconcile, allowed time.Duration) {
	o := r.byName[one.Object]
	if o == nil {
		r.found(Foreign, one.Object, one.start, one.end, []string{one.process}, "%s reconciled an object that is not in the record", one.shard)
		return
	}
	read, known := slices.BinarySearchFunc(o.versions, one.Version, func(s observedWrite, v uint64) int { return cmp.Compare(s.Version, v) })
	if one.Version == 0 || !known {
		r.startedInTime(one, o, allowed)
		return
	}
	if owner := o.versions[read].Shard; owner != one.shard {
		r.found(Foreign, one.Object, o.versions[read].at, one.start, []string{one.process},
			"%s reconciled version %d, whose owner was %q", one.shard, one.Version, owner)
		return
	}
	if taken := o.taken(read); taken != nil && one.start.After(taken.at.Add(allowed)) {
		r.found(Foreign, one.Object, taken.at, one.start, []string{one.process},
			"%s started reconcile %d with version %d after the object was assigned to %q with version %d",
			one.shard, one.Number, one.Version, taken.Shard, taken.Version)
	}
}

// startedInTime checks a reconcile without a version: the object must have had the shard's label at a time when the
// shard can have observed it.
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
		"%s started reconcile %d when it did not own the object", one.shard, one.Number)
}

// taken returns the first write after a version that assigns another owner, or nil. A deletion does not: the last owner
// may clean up.
func (o *object) taken(version int) *observedWrite {
	for i := version + 1; i < len(o.versions); i++ {
		if o.versions[i].Shard != o.versions[version].Shard {
			return &o.versions[i]
		}
	}
	return nil
}
