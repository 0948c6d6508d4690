package plan

import (
	"slices"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// Again is what is to be done after the present step of a plan, when the cluster looks like this now: another
// member may lead by now, and some may not want it any more. A member that has a part of its steps behind it
// gets the rest in any case: half a replacement is worse than one that nobody wants.
func Again(c Cluster, steps []coordination.Step, at int, wanted func(ID) bool) []coordination.Step {
	done, rest := steps[:at+1], steps[at+1:]
	var units [][]coordination.Step
	for _, unit := range split(rest) {
		if began(unit, done) || slices.ContainsFunc(unit, func(s coordination.Step) bool { return wanted(s.Member) }) {
			units = append(units, unit)
		}
	}
	// What has begun comes first, what disturbs the leader last.
	slices.SortStableFunc(units, func(a, b []coordination.Step) int {
		if x, y := began(a, done), began(b, done); x != y {
			return order(x)
		}
		if x, y := disturbs(a, c.Leader), disturbs(b, c.Leader); x != y {
			return order(y)
		}
		return 0
	})
	var again []coordination.Step
	var gone []ID
	// What was given up half-way is planned again: its member is not yet at rest.
	settled := slices.DeleteFunc(arrivedIn(done), func(id ID) bool { return slices.Contains(arrivedIn(rest), id) })
	for _, unit := range units {
		for _, step := range unit {
			if (step.Do == Restart || step.Do == Remove) && step.Member == c.Leader {
				again = append(again, c.moveAway(settled, gone)...)
			}
			if step.Do == Remove {
				gone = append(gone, step.Member)
			}
			again = append(again, step)
		}
		settled = append(settled, arrivedIn(unit)...)
	}
	return again
}

// Without leaves out what is still to be done, from the present step on, to the member that this step is about, and to the
// one that it comes for.
func Without(steps []coordination.Step, at int) []coordination.Step {
	left := slices.Clone(steps[:at])
	if units := split(steps[at:]); len(units) > 0 {
		left = append(left, slices.Concat(units[1:]...)...)
	}
	return left
}

func order(first bool) int {
	if first {
		return -1
	}
	return 1
}

// split divides steps into what belongs together: a restart, or a replacement. Moves of the leader are left out: they are
// planned anew.
func split(steps []coordination.Step) [][]coordination.Step {
	var units [][]coordination.Step
	var unit []coordination.Step
	for i, step := range steps {
		if step.Do != MoveLeader {
			unit = append(unit, step)
		}
		last := i == len(steps)-1
		if ends(step, last || steps[i+1].Do == AddLearner || steps[i+1].Do == Restart) || last {
			if len(unit) > 0 {
				units = append(units, unit)
			}
			unit = nil
		}
	}
	return units
}

// ends tells whether a unit ends with a step, given whether another one begins after it.
func ends(step coordination.Step, next bool) bool {
	return step.Do == Restart || step.Do == Stop || step.Do == Promote && next
}

// began tells whether a unit is the rest of one whose beginning is done.
func began(unit, done []coordination.Step) bool {
	// Where the leader's part was given away for it, that was not yet its beginning.
	at := len(done) - 1
	for at >= 0 && done[at].Do == MoveLeader {
		at--
	}
	if len(unit) == 0 || at < 0 {
		return false
	}
	switch unit[0].Do {
	case Start, Promote, Stop:
		return true
	case Remove: // after the replacement has its vote
		return done[at].Do == Promote
	}
	return false
}

func disturbs(unit []coordination.Step, leader ID) bool {
	return slices.ContainsFunc(unit, func(s coordination.Step) bool {
		return s.Member == leader && (s.Do == Restart || s.Do == Remove)
	})
}

// arrivedIn are the members that have been disturbed for the last time.
func arrivedIn(steps []coordination.Step) []ID {
	var ids []ID
	for _, step := range steps {
		if step.Do == Restart || step.Do == Promote {
			ids = append(ids, step.Member)
		}
	}
	return ids
}
