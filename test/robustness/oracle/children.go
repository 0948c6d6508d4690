package oracle

import "slices"

// children finds controlled objects with another owner than their controllers (I2).
func (r *run) children() {
	for _, child := range r.objects {
		if !r.controlled(child) || r.ByHand[child.Object] {
			continue
		}
		controller := child.versions[len(child.versions)-1].Controller
		if controller == nil || r.byName[*controller] == nil {
			continue
		}
		r.checkApart(child, r.byName[*controller])
		for i := range child.versions {
			r.leftOwner(child, i, r.byName[*controller])
		}
	}
}

// checkApart checks how long a child was on another shard than its controller.
func (r *run) checkApart(child, owner *object) {
	var childThere, ownerThere, together windows
	owners := r.labelWindows(owner)
	for shard, times := range r.labelWindows(child) {
		childThere = union(slices.Concat(childThere, times)...)
		together = union(slices.Concat(together, times.and(owners[shard]))...)
	}
	for _, times := range owners {
		ownerThere = union(slices.Concat(ownerThere, times)...)
	}
	gaps := childThere.and(ownerThere).without(together)
	r.figures.Apart.add(child.Object, gaps.longest().length())
	if gap, allowed := r.tooLong(gaps, r.Apart); gap.length() > 0 {
		r.found(Apart, child.Object, gap.From, gap.To, nil, "it was on another shard than %s for longer than %s", owner.Object, allowed)
	}
}

// leftOwner checks whether a write moved a child from a live shard that still owned its controller. The sharder must
// never do so. A shard may when it no longer reconciles the controller and hands both over.
func (r *run) leftOwner(child *object, i int, owner *object) {
	write := &child.versions[i]
	if i == 0 || write.Deleted || child.versions[i-1].Deleted {
		return
	}
	from := child.versions[i-1].Shard
	ownerThen := owner.at(write.Version)
	if from == "" || from == write.Shard || ownerThen == nil || ownerThen.Shard != from || !r.epochs[r.epochAt(write.Version)].members.Has(from) {
		return
	}
	if r.Sharder != "" && write.Manager == r.Sharder && r.knew(from, write) {
		r.found(LeftOwner, child.Object, write.at, write.at, []string{from},
			"the sharder moved it from %s to %s with version %d, while %s still owned %s", from, write.Shard, write.Version, from, owner.Object)
		return
	}
	if busy := r.busy(child, i, owner); busy != nil {
		r.found(LeftOwner, child.Object, write.at, busy.end, []string{busy.process},
			"it moved from %s to %s with version %d, and reconcile %d of %s continued without it", from, write.Shard, write.Version, busy.Number, owner.Object)
	}
}

// knew reports whether the sharder knew that a shard is alive when it wrote: one that has just joined again may have been
// too late to prevent the write. busy finds the consequences.
func (r *run) knew(shard string, write *observedWrite) bool {
	first, _ := r.epochRange(write)
	for i := first; i <= r.epochAt(write.Version); i++ {
		if !r.epochs[i].members.Has(shard) {
			return false
		}
	}
	return true
}

// busy returns a reconcile of a controller by its shard that continues after a write has moved a child away, and before
// the controller moves too or the child is back.
func (r *run) busy(child *object, i int, owner *object) *reconcile {
	write, shard, until := &child.versions[i], child.versions[i-1].Shard, r.end
	for n := range owner.versions {
		if v := &owner.versions[n]; v.Version > write.Version && (v.Shard != shard || v.Deleted) {
			until = v.at
			break
		}
	}
	for n := i + 1; n < len(child.versions); n++ {
		if v := &child.versions[n]; v.Shard == shard || v.Deleted {
			until = earlier(until, v.at)
		}
	}
	for _, one := range r.reconciles {
		if one.Object != owner.Object || one.shard != shard || !one.end.After(write.at) || !one.start.Before(until) {
			continue
		}
		// A shard that is killed during a handover leaves a controller without its children. The next process of its name
		// gets them back within the time that they may be apart.
		if !r.process(one.process).joinedAt.After(write.at) {
			return one
		}
	}
	return nil
}
