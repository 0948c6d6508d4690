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

// ID names a member.
type ID = coordination.MemberID

// Cluster is what a plan is made for.
type Cluster struct {
	// Voters are the members that have a vote.
	Voters []ID
	// Leader is one of them, or empty when nobody knows.
	Leader ID
	// Leaving are those that wait for a removal, an exclusion or a restart.
	Leaving []ID
	// Sick are those that cannot lead now, because they are not well.
	Sick []ID
}

// Replacement is a member that goes, one that comes, or one that comes for one that goes.
type Replacement struct{ Old, New ID }

// ForRestart restarts members, the leader last.
func ForRestart(c Cluster, members []ID) []coordination.Step {
	var steps []coordination.Step
	self := func(id ID) ID { return id }
	members = leaderLast(c.Leader, members, self, self)
	for i, id := range members {
		if id == c.Leader {
			steps = append(steps, c.moveAway(members[:i], nil)...)
		}
		steps = append(steps, coordination.Step{Do: Restart, Member: id, Order: true})
	}
	return steps
}

// ForReplacement lets members come and go, the leader last.
func ForReplacement(c Cluster, replacements []Replacement) []coordination.Step {
	var steps []coordination.Step
	var arrived, gone []ID
	old, name := func(r Replacement) ID { return r.Old }, func(r Replacement) ID { return cmp.Or(r.Old, r.New) }
	for _, r := range leaderLast(c.Leader, replacements, old, name) {
		if r.New != "" {
			steps = append(steps,
				coordination.Step{Do: AddLearner, Member: r.New},
				coordination.Step{Do: Start, Member: r.New, Order: true},
				coordination.Step{Do: Promote, Member: r.New})
			arrived = append(arrived, r.New)
		}
		if r.Old == "" {
			continue
		}
		if r.Old == c.Leader {
			steps = append(steps, c.moveAway(arrived, gone)...)
		}
		steps = append(steps,
			coordination.Step{Do: Remove, Member: r.Old},
			coordination.Step{Do: Stop, Member: r.Old, Order: true})
		gone = append(gone, r.Old)
	}
	return steps
}

// ForLost removes members of regions that do not return, the leader last. Nobody is there to stop them.
func ForLost(c Cluster, members []ID) []coordination.Step {
	var steps []coordination.Step
	self := func(id ID) ID { return id }
	for _, id := range leaderLast(c.Leader, members, self, self) {
		if id == c.Leader {
			steps = append(steps, c.moveAway(nil, members)...)
		}
		steps = append(steps, coordination.Step{Do: Remove, Member: id})
	}
	return steps
}

// moveAway gives the leader's part to another member. By then some have been disturbed for the last time, and some
// are gone.
func (c Cluster) moveAway(settled, gone []ID) []coordination.Step {
	to := c.successor(settled, gone)
	if to == "" {
		return nil // it is alone, or nobody is well
	}
	return []coordination.Step{{Do: MoveLeader, Member: to}}
}

// successor is a member that is well and stays: one that nobody wants to disturb, or one of those which have been disturbed
// by then. If there is none, it is one that waits for something else: to lead twice is better than that the leader's
// turn never comes.
func (c Cluster) successor(settled, gone []ID) ID {
	voters := slices.DeleteFunc(slices.Sorted(slices.Values(c.Voters)), func(id ID) bool {
		return id == c.Leader || slices.Contains(gone, id)
	})
	well := func(id ID) bool { return !slices.Contains(c.Sick, id) }
	stays := func(id ID) bool { return well(id) && !slices.Contains(c.Leaving, id) }
	settled = slices.DeleteFunc(slices.Clone(settled), func(id ID) bool { return id == c.Leader })
	return cmp.Or(
		first(voters, stays),
		first(settled, well),
		first(settled, func(ID) bool { return true }), // it will be well by then
		first(voters, well),
	)
}

func first(ids []ID, is func(ID) bool) ID {
	if at := slices.IndexFunc(ids, is); at >= 0 {
		return ids[at]
	}
	return ""
}

// leaderLast sorts by name, with what disturbs the leader at the end.
func leaderLast[T any](leader ID, all []T, disturbs, name func(T) ID) []T {
	return slices.SortedFunc(slices.Values(all), func(a, b T) int {
		if last, other := disturbs(a) == leader, disturbs(b) == leader; last != other {
			if last {
				return 1
			}
			return -1
		}
		return cmp.Compare(name(a), name(b))
	})
}

// Pairs lets the members of a region that come take the place of those that go.
func Pairs(going, coming coordination.Members) []Replacement {
	var pairs []Replacement
	left := byRegion(coming)
	for _, id := range sorted(going) {
		pair := Replacement{Old: id}
		if of := left[going[id].Prefix]; len(of) > 0 {
			pair.New, left[going[id].Prefix] = of[0], of[1:]
		}
		pairs = append(pairs, pair)
	}
	for _, region := range left {
		for _, id := range region {
			pairs = append(pairs, Replacement{New: id})
		}
	}
	slices.SortFunc(pairs, func(a, b Replacement) int { return cmp.Compare(cmp.Or(a.Old, a.New), cmp.Or(b.Old, b.New)) })
	return pairs
}

func byRegion(members coordination.Members) map[string][]ID {
	regions := map[string][]ID{}
	for _, id := range sorted(members) {
		regions[members[id].Prefix] = append(regions[members[id].Prefix], id)
	}
	return regions
}

func sorted(members coordination.Members) []ID {
	ids := make([]ID, 0, len(members))
	for id := range members {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
