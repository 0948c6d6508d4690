package oracle

import (
	"slices"
	"time"
)

// owners checks that objects have live owners (I2). Time without any live shard does not count.
func (r *run) owners() {
	live := map[string]windows{}
	var anyLive windows
	for shard := range r.leases {
		live[shard] = r.liveWindows(shard)
		anyLive = union(slices.Concat(anyLive, live[shard])...)
	}
	for _, o := range r.objects {
		// A controlled object without a controller has no owner.
		if !r.main(o) && (!r.controlled(o) || o.versions[0].Controller == nil) {
			continue
		}
		r.figures.Objects++
		if r.ByHand[o.Object] {
			continue
		}
		var there, owned windows
		for shard, times := range r.labelWindows(o) {
			there = union(slices.Concat(there, times)...)
			owned = union(slices.Concat(owned, times.and(live[shard]))...)
		}
		gaps := there.without(owned).and(anyLive)
		r.figures.Unowned.add(o.Object, gaps.longest().length())
		if gap, allowed := r.tooLong(gaps, r.Unowned); gap.length() > 0 {
			r.found(Unowned, o.Object, gap.From, gap.To, nil, "it had no live owner for longer than %s", allowed)
		}
	}
}

// tooLong returns the longest of the gaps that exceed a bound, with the allowed length, or nothing.
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
