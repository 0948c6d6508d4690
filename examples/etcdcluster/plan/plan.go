// Package plan decides in which order the members of an etcd cluster are restarted, replaced and removed.
//
// It promises that the leader is disturbed last and gives its part away before, to a member that stays, so that a whole plan
// changes the leader at most once; that a member that is well is removed only after the one that takes its place has a vote; and
// that one member at a time is disturbed. It does nothing itself and knows no clock.
package plan

import (
	"cmp"
	"slices"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// What the steps do. Start, Restart and Stop are orders: only the region of the member can carry them out.
const (
	AddLearner = "add-learner"
	Start      = "start"
	Promote    = "promote"
	MoveLeader = "move-leader" // to the step's member
	Remove     = "remove"
	Restart    = "restart"
	Stop       = "stop" // and delete its data
)

// What else a step tells, in Step.With.
const (
	Unit = "unit" // the name of the steps that belong together
	Peer = "peer" // where the other members reach the member
	From = "from" // the leader that gives its part away
)

// ID names a member.
type ID = coordination.MemberID

// Cluster is what a plan is made for.
type Cluster struct {
	// Voters are the members that have a vote, and Leader is one of them, or "" when nobody knows.
	Voters []ID
	Leader ID
	// Candidates are the voters that nobody is about to disturb.
	Candidates []ID
	// Sick are the voters that are not well.
	Sick []ID
}

// Restarting restarts a member.
func Restarting(id ID) []coordination.Step { return unit(id, "", step(Restart, id)) }

// Losing removes a member that nobody is left to stop.
func Losing(id ID) []coordination.Step { return unit(id, "", step(Remove, id)) }

// Coming adds a member.
func Coming(id ID, peer string) []coordination.Step {
	return unit(id, peer, step(AddLearner, id), step(Start, id), step(Promote, id))
}

// Going removes a member.
func Going(id ID, peer string) []coordination.Step {
	return unit(id, peer, step(Remove, id), step(Stop, id))
}

// Replacing adds a member and removes another one then, or before if that one is not well: etcd adds none while a member is down.
func Replacing(c Cluster, old ID, oldPeer string, id ID, peer string) []coordination.Step {
	steps := slices.Concat(Coming(id, peer), Going(old, oldPeer))
	if slices.Contains(c.Sick, old) {
		steps = slices.Concat(Going(old, oldPeer), Coming(id, peer))
	}
	for _, step := range steps {
		step.With[Unit] = string(old)
	}
	return steps
}

func step(do string, id ID) coordination.Step {
	return coordination.Step{Do: do, Members: []ID{id}, Order: do == Start || do == Restart || do == Stop}
}

func unit(name ID, peer string, steps ...coordination.Step) []coordination.Step {
	for i := range steps {
		steps[i].With = map[string]string{Unit: string(name)}
		if peer != "" {
			steps[i].With[Peer] = peer
		}
	}
	return steps
}

// Begin puts units into order.
func Begin(c Cluster, units ...[]coordination.Step) []coordination.Step {
	return arrange(c, nil, units)
}

// Again puts the rest of a plan into order when some steps are done and the cluster looks like this: another member may lead by
// now, and some may not be wanted any more. What has begun is ended in any case, unless one of its members was left out: half a
// replacement is worse than one that nobody wants.
func Again(c Cluster, done, rest []coordination.Step, wanted, leftOut func(ID) bool) []coordination.Step {
	units, at := [][]coordination.Step{}, map[string]int{}
	for _, step := range rest {
		if step.Do == MoveLeader {
			continue // planned again
		}
		i, known := at[step.With[Unit]]
		if !known {
			i, at[step.With[Unit]] = len(units), len(units)
			units = append(units, nil)
		}
		units[i] = append(units[i], step)
	}
	units = slices.DeleteFunc(units, func(unit []coordination.Step) bool {
		out := func(s coordination.Step) bool { return of(unit, s) && leftOut(s.Member()) }
		wants := func(s coordination.Step) bool { return wanted(s.Member()) }
		return slices.ContainsFunc(slices.Concat(done, unit), out) || !begun(unit, done) && !slices.ContainsFunc(unit, wants)
	})
	return arrange(c, done, units)
}

// arrange orders units: what has begun, what disturbs members that are not well, all others by name, and the leader.
func arrange(c Cluster, done []coordination.Step, units [][]coordination.Step) []coordination.Step {
	rank := func(unit []coordination.Step) int {
		switch {
		case begun(unit, done):
			return 0
		case slices.ContainsFunc(c.Sick, func(id ID) bool { return disturbs(unit, id) }):
			return 1
		case disturbs(unit, c.Leader):
			return 3
		}
		return 2
	}
	slices.SortStableFunc(units, func(a, b []coordination.Step) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a[0].With[Unit], b[0].With[Unit]))
	})
	var steps []coordination.Step
	var gone []ID
	// A member that is disturbed again is not yet at rest.
	settled := slices.DeleteFunc(arrived(done), func(id ID) bool {
		return slices.ContainsFunc(units, func(unit []coordination.Step) bool { return slices.Contains(arrived(unit), id) })
	})
	for _, unit := range units {
		for _, step := range unit {
			if disturbing(step) && step.Member() == c.Leader {
				if to := Successor(c, settled, gone); to != "" { // or it is alone, or nobody is well
					move := coordination.Step{Do: MoveLeader, Members: []ID{to}, With: map[string]string{Unit: step.With[Unit], From: string(c.Leader)}}
					steps = append(steps, move)
				}
			}
			if step.Do == Remove {
				gone = append(gone, step.Member())
			}
			steps = append(steps, step)
			settled = append(settled, arrived([]coordination.Step{step})...)
		}
	}
	return steps
}

// begun tells whether a unit is the rest of one of which something is done. Where the leader's part was given away for it, that
// was not yet its beginning.
func begun(unit, done []coordination.Step) bool {
	return slices.ContainsFunc(done, func(s coordination.Step) bool { return of(unit, s) })
}

func of(unit []coordination.Step, s coordination.Step) bool {
	return s.Do != MoveLeader && s.With[Unit] == unit[0].With[Unit]
}

func disturbing(s coordination.Step) bool { return s.Do == Restart || s.Do == Remove }

func disturbs(unit []coordination.Step, id ID) bool {
	return slices.ContainsFunc(unit, func(s coordination.Step) bool { return disturbing(s) && s.Member() == id })
}

// arrived are the members that are disturbed for the last time by some steps.
func arrived(steps []coordination.Step) (ids []ID) {
	for _, step := range steps {
		if step.Do == Restart || step.Do == Promote {
			ids = append(ids, step.Member())
		}
	}
	return ids
}

// Successor is a member that is well and stays: one that nobody is about to disturb, or one of those that have been disturbed for
// the last time by then. If there is none, it is one that waits for something else: to lead twice is better than that the leader's
// turn never comes.
func Successor(c Cluster, settled, gone []ID) ID {
	others := slices.DeleteFunc(slices.Sorted(slices.Values(c.Voters)), func(id ID) bool {
		return id == c.Leader || slices.Contains(gone, id)
	})
	well := func(id ID) bool { return !slices.Contains(c.Sick, id) }
	stays := func(id ID) bool { return well(id) && slices.Contains(c.Candidates, id) }
	settled = slices.DeleteFunc(slices.Clone(settled), func(id ID) bool { return id == c.Leader || slices.Contains(gone, id) })
	return cmp.Or(first(others, stays), first(settled, well), first(settled, func(ID) bool { return true }), first(others, well))
}

func first(ids []ID, is func(ID) bool) ID {
	if at := slices.IndexFunc(ids, is); at >= 0 {
		return ids[at]
	}
	return ""
}
