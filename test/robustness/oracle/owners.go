package oracle

import (
	"slices"
	"time"
)

// owners looks for objects without a live shard (I2). Time in which there is no live shard at all
// does not count: nobody could have the object.
func (r *run) owners() {
	live := map[string]windows{}
	var anybody windows
	for shard := range r.leases {
		live[shard] = r.live(shard)
		anybody = union(slices.Concat(anybody, live[shard])...)
	}
	for _, o := range r.objects {
		// A controlled object without a controller is nobody's.
		if !r.main(o) && (!r.controlled(o) || o.versions[0].Controller == nil) {
			continue
		}
		r.figures.Objects++
		if r.ByHand[o.Object] {
			continue
		}
		var there, owned windows
		for shard, times := range r.labelled(o) {
			there = union(slices.Concat(there, times)...)
			owned = union(slices.Concat(owned, times.and(live[shard]))...)
		}
		gaps := there.without(owned).and(anybody)
		r.figures.Unowned.add(o.Object, gaps.longest().length())
		if gap, allowed := r.tooLong(gaps, r.Unowned); gap.length() > 0 {
			r.found(Unowned, o.Object, gap.From, gap.To, nil, "it had no live shard for longer than %s", allowed)
		}
	}
}

// tooLong is the longest of the gaps that are longer than a bound allows, with what was allowed, or nothing.
func (r *run) tooLong(gaps windows, bound time.Duration) (longest Window, allowed time.Duration) {
	for _, gap := range gaps {
		if gap.length() <= max(bound, longest.length()) {
			continue
		}
		if limit := bound + time.Duration(r.Steps)*r.reference(gap); gap.length() > limit {
			longest, allowed = gap, limit
		}
	}
	return longest, allowed
}
