// Package plan decides in which order the members of an etcd cluster are restarted, replaced and removed.
//
// It guarantees that one member at a time is disturbed; that a healthy member is removed only after its
// replacement has a vote; and that the leader is disturbed last, after the lead was moved to a member that the
// plan does not disturb later: a whole plan changes the leader at most once. It has no I/O and no clock.
package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// The operations of steps. Start, Restart and Stop are orders: only the region of the member can carry them out.
const (
	AddLearner = "add-learner"
	Start      = "start"
	Promote    = "promote"
	MoveLeader = "move-leader" // to the member of the step
	Remove     = "remove"
	Restart    = "restart"
	Stop       = "stop" // and delete the data
)

// Keys of Step.With.
const (
	Unit = "unit" // the name that all steps of a unit share
	Peer = "peer" // the peer URL of the member
	From = "from" // the leader before the step
)

type (
	// ID names a member.
	ID = coordination.MemberID
	// Step is a step of a plan. Steps that belong together are a unit: they are planned, and dropped, together.
	Step = coordination.Step
)

// Cluster is the input of a plan.
type Cluster struct {
	Voters     []ID // the members that have a vote
	Leader     ID   // one of them, or ""
	Unhealthy  []ID // members that are not healthy
	Candidates []ID // members without a need
}

// MemberUnits returns a unit for each member: to Restart it, or to Remove one whose region is lost.
func MemberUnits(do string, ids ...ID) (units [][]Step) {
	for _, id := range ids {
		units = append(units, unit(id, id, "", do))
	}
	return units
}

// ReplacementUnits returns units that remove and add members, with their peer URLs as addresses. A new member replaces one of
// its region, and is added first, unless that one is unhealthy: etcd adds no member while another one is down.
func ReplacementUnits(c Cluster, removed, added coordination.Members) (units [][]Step) {
	joining := slices.Sorted(maps.Keys(added))
	peer := func(m coordination.Member) string { return strings.Join(m.Addresses, "") }
	for _, id := range slices.Sorted(maps.Keys(removed)) {
		steps := unit(id, id, peer(removed[id]), Remove, Stop)
		replaces := func(other ID) bool { return added[other].Prefix == removed[id].Prefix }
		if i := slices.IndexFunc(joining, replaces); i >= 0 {
			joins := unit(id, joining[i], peer(added[joining[i]]), AddLearner, Start, Promote)
			if slices.Contains(c.Unhealthy, id) {
				joins, steps = steps, joins
			}
			steps, joining = append(joins, steps...), slices.Delete(joining, i, i+1)
		}
		units = append(units, steps)
	}
	for _, id := range joining {
		units = append(units, unit(id, id, peer(added[id]), AddLearner, Start, Promote))
	}
	return units
}

func unit(name, id ID, peer string, does ...string) (steps []Step) {
	for _, do := range does {
		with := map[string]string{Unit: string(name), Peer: peer}
		steps = append(steps, Step{Do: do, Members: []ID{id}, Order: do == Start || do == Restart || do == Stop, With: with})
	}
	return steps
}

// Arrange returns the steps of units: first those that were begun, then those of unhealthy members, because the system may not
// be able to spare another one, and the leader's last.
func Arrange(c Cluster, done []Step, units [][]Step) (steps []Step) {
	rank := func(unit []Step) int {
		switch {
		case isBegun(unit, done):
			return 0
		case slices.ContainsFunc(c.Unhealthy, func(id ID) bool { return disturbs(unit, id) }):
			return 1
		case disturbs(unit, c.Leader):
			return 3
		}
		return 2
	}
	slices.SortStableFunc(units, func(a, b []Step) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a[0].With[Unit], b[0].With[Unit]))
	})
	rest := slices.Concat(units...)
	for i, step := range rest {
		if disturbs(rest[i:i+1], c.Leader) {
			if to := Successor(c, slices.Concat(done, rest[:i]), rest[i:]); to != "" {
				with := map[string]string{Unit: step.With[Unit], From: string(c.Leader)}
				steps = append(steps, Step{Do: MoveLeader, Members: []ID{to}, With: with})
			}
		}
		steps = append(steps, step)
	}
	return steps
}

// Replan plans the remaining steps: the leader may have changed, and units may no longer be needed. A unit that
// was begun is finished, because half a replacement is worse, unless one of its members was left out.
func Replan(c Cluster, done, rest []Step, wanted, leftOut func(ID) bool) []Step {
	var units [][]Step
	for _, step := range rest {
		if step.Do == MoveLeader {
			continue // planned again
		}
		i := slices.IndexFunc(units, func(unit []Step) bool { return isInUnit(unit, step) })
		if i < 0 {
			i, units = len(units), append(units, nil)
		}
		units[i] = append(units[i], step)
	}
	return Arrange(c, done, slices.DeleteFunc(units, func(unit []Step) bool {
		isLeftOut := func(s Step) bool { return isInUnit(unit, s) && leftOut(s.Member()) }
		isWanted := func(s Step) bool { return wanted(s.Member()) }
		return slices.ContainsFunc(slices.Concat(done, unit), isLeftOut) || !isBegun(unit, done) && !slices.ContainsFunc(unit, isWanted)
	}))
}

// Successor returns the healthy member that becomes the leader between done and remaining steps: one without a
// need, or else one that was already disturbed, or else any, because two moves are better than none. It may be
// "".
func Successor(c Cluster, done, rest []Step) ID {
	ids, undisturbed := slices.Sorted(slices.Values(c.Voters)), []ID(nil)
	for _, step := range done {
		if (step.Do == Restart || step.Do == Promote) && !disturbs(rest, step.Member()) {
			undisturbed = append(undisturbed, step.Member())
		}
	}
	for _, suitable := range [][]ID{c.Candidates, undisturbed, ids} {
		for _, id := range slices.Concat(undisturbed, ids) {
			isGone := slices.ContainsFunc(done, func(s Step) bool { return s.Do == Remove && s.Member() == id })
			if slices.Contains(suitable, id) && id != c.Leader && !isGone && !slices.Contains(c.Unhealthy, id) {
				return id
			}
		}
	}
	return ""
}

// isBegun reports whether a step of a unit is done.
func isBegun(unit, done []Step) bool {
	return slices.ContainsFunc(done, func(s Step) bool { return isInUnit(unit, s) })
}

// isInUnit reports whether a step belongs to a unit. A move of the leader does not.
func isInUnit(unit []Step, s Step) bool {
	return s.Do != MoveLeader && s.With[Unit] == unit[0].With[Unit]
}

// disturbs reports whether steps stop or remove a member.
func disturbs(steps []Step, id ID) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return (s.Do == Restart || s.Do == Remove) && s.Member() == id })
}
