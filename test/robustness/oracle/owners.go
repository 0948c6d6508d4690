package oracle

import "slices"

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
		longest := there.without(owned).and(anybody).longest()
		r.figures.Unowned.add(o.Object, longest.length())
		if longest.length() > r.Unowned {
			r.found(Unowned, o.Object, longest.From, longest.To, nil, "it had no live shard for longer than %s", r.Unowned)
		}
	}
}
