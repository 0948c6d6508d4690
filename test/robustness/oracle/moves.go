package oracle

import "github.com/ringmaster-project/ringmaster/test/robustness/history"

// moves finds objects that moved needlessly or more than once (I4).
func (r *run) moves() {
	moved := make([]int, len(r.epochs))
	for _, o := range r.objects {
		if !r.main(o) || r.ByHand[o.Object] {
			continue
		}
		for _, life := range o.lives() {
			r.movesOf(o, life, moved)
		}
	}
	for i := 1; i < len(r.epochs); i++ {
		r.figures.Changes = append(r.figures.Changes, r.change(i, moved[i]))
	}
}

// lives returns the versions of an object from each creation to the deletion.
func (o *object) lives() [][]observedWrite {
	var lives [][]observedWrite
	first := 0
	for i := range o.versions {
		// A different UID shows a deletion that was not observed.
		if last := i == len(o.versions)-1; last || o.versions[i].Deleted || o.versions[i+1].UID != o.versions[i].UID {
			lives = append(lives, o.versions[first:i+1])
			first = i + 1
		}
	}
	return lives
}

// movesOf checks the moves of an object in one of its lives, and counts them by epoch.
func (r *run) movesOf(o *object, life []observedWrite, moved []int) {
	owner, moves := "", 0
	var first, last *observedWrite
	for i := range life {
		write := &life[i]
		if write.Shard == "" || write.Shard == owner {
			continue
		}
		cause, found := r.cause(o, write)
		if !found {
			r.found(Misplaced, o.Object, write.at, write.at, []string{write.Shard}, "it moved from %q to %s with version %d, but its owner by the ring was %q",
				owner, write.Shard, write.Version, r.epochs[r.epochAt(write.Version)].owner(o.Object))
		}
		if owner == "" {
			first = write
		} else {
			moves++
			moved[cause]++
		}
		owner, last = write.Shard, write
	}
	if moves == 0 {
		return
	}
	if needed := r.needed(o, first, last); moves > needed {
		r.found(MovedTwice, o.Object, first.at, last.at, []string{last.Shard},
			"it moved %d times, and the changes of the members required %d", moves, needed)
	}
}

// cause returns the epoch in which a write assigned the right owner: the current one, the previous one if it has ended
// just before, because sharders and shards may not have observed that, or the next one if it began just after, because
// a leaving shard hands its objects over before it releases its Lease.
func (r *run) cause(o *object, write *observedWrite) (epoch int, found bool) {
	first, last := r.epochRange(write)
	for epoch = last; epoch >= first; epoch-- {
		if r.epochs[epoch].owner(o.Object) == write.Shard {
			for epoch > 0 && r.epochs[epoch-1].owner(o.Object) == write.Shard {
				epoch--
			}
			return epoch, true
		}
	}
	return r.epochAt(write.Version), false
}

// epochRange returns the first and the last epoch that can be the cause of a write.
func (r *run) epochRange(write *observedWrite) (first, last int) {
	first = r.epochAt(write.Version)
	for last = first; last+1 < len(r.epochs) && !r.epochs[last+1].at.After(write.at.Add(r.Settle)); {
		last++
	}
	for first > 0 && !r.epochs[first].at.Before(write.at.Add(-r.Settle)) {
		first--
	}
	return first, last
}

// needed returns how often an object had to move between the writes of its first and its last owner.
func (r *run) needed(o *object, first, last *observedWrite) int {
	needed, owner := 0, first.Shard
	_, until := r.epochRange(last)
	for i := r.epochAt(first.Version); i <= until; i++ {
		if desired := r.epochs[i].owner(o.Object); desired != "" && desired != owner {
			needed++
			owner = desired
		}
	}
	return needed
}

// change returns the figures of a change of the members.
func (r *run) change(i, moved int) Change {
	before, after := &r.epochs[i-1], &r.epochs[i]
	change := Change{Before: before.members.Shards(), After: after.members.Shards(), Moved: moved}
	for _, o := range r.mainsAt(after.version) {
		change.Objects++
		if before.owner(o) != after.owner(o) {
			change.HadToMove++
		}
	}
	return change
}

// mainsAt returns the main objects at a version.
func (r *run) mainsAt(version uint64) []history.Object {
	var there []history.Object
	for _, o := range r.objects {
		if r.main(o) && o.at(version) != nil {
			there = append(there, o.Object)
		}
	}
	return there
}
