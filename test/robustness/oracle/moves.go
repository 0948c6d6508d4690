package oracle

import "github.com/ringmaster-project/ringmaster/test/robustness/history"

// moves looks for objects that moved for nothing or more than once (I4).
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

// lives are the versions of an object from each of its creations to the deletion.
func (o *object) lives() [][]seen {
	var lives [][]seen
	first := 0
	for i := range o.versions {
		// A deletion that was not seen shows in the UID.
		if last := i == len(o.versions)-1; last || o.versions[i].Deleted || o.versions[i+1].UID != o.versions[i].UID {
			lives = append(lives, o.versions[first:i+1])
			first = i + 1
		}
	}
	return lives
}

// movesOf judges the moves of an object in one of its lives, and counts them by epoch.
func (r *run) movesOf(o *object, life []seen, moved []int) {
	at, moves := "", 0
	var first, last *seen
	for i := range life {
		write := &life[i]
		if write.Shard == "" || write.Shard == at {
			continue
		}
		cause, found := r.cause(o, write)
		if !found {
			r.found(Misplaced, o.Object, write.at, write.at, []string{write.Shard}, "it went from %q to %s with version %d, but belonged to %q",
				at, write.Shard, write.Version, r.epochs[r.epochAt(write.Version)].owner(o.Object))
		}
		if at == "" {
			first = write
		} else {
			moves++
			moved[cause]++
		}
		at, last = write.Shard, write
	}
	if moves == 0 {
		return
	}
	if needed := r.needed(o, first, last); moves > needed {
		r.found(MovedTwice, o.Object, first.at, last.at, []string{last.Shard},
			"it moved %d times, and the changes of membership asked for %d", moves, needed)
	}
}

// cause is the change of membership that made an object belong to the shard that a write gave it: one
// that was still in force or had ended just before, which a replica of the sharder or a shard may not
// have known yet, or one that came just after, because a shard that leaves hands its objects over
// before it gives its Lease up.
func (r *run) cause(o *object, write *seen) (epoch int, found bool) {
	first, last := r.around(write)
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

// around are the first and the last epoch that count for a write.
func (r *run) around(write *seen) (first, last int) {
	first = r.epochAt(write.Version)
	for last = first; last+1 < len(r.epochs) && !r.epochs[last+1].at.After(write.at.Add(r.Settle)); {
		last++
	}
	for first > 0 && !r.epochs[first].at.Before(write.at.Add(-r.Settle)) {
		first--
	}
	return first, last
}

// needed is how often an object had to move between the write that gave it its first shard and the
// last that gave it another.
func (r *run) needed(o *object, first, last *seen) int {
	needed, at := 0, first.Shard
	_, until := r.around(last)
	for i := r.epochAt(first.Version); i <= until; i++ {
		if desired := r.epochs[i].owner(o.Object); desired != "" && desired != at {
			needed++
			at = desired
		}
	}
	return needed
}

// change is what a change of membership was about.
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

// mainsAt are the main objects that there were when a write happened.
func (r *run) mainsAt(version uint64) []history.Object {
	var there []history.Object
	for _, o := range r.objects {
		if r.main(o) && o.at(version) != nil {
			there = append(there, o.Object)
		}
	}
	return there
}
