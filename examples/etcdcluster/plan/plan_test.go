package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

func describeSteps(steps []coordination.Step) string {
	words := make([]string, 0, len(steps))
	for _, step := range steps {
		words = append(words, step.Do+" "+string(step.Member()))
	}
	return strings.Join(words, ", ")
}

// restarting, replacing and losing return plans of one kind.
func restarting(c Cluster, ids ...ID) []coordination.Step {
	return Arrange(c, nil, MemberUnits(Restart, ids...))
}

func losing(c Cluster, ids ...ID) []coordination.Step {
	return Arrange(c, nil, MemberUnits(Remove, ids...))
}

// replacement returns a member that is removed, one that is added, or both.
type replacement struct{ old, new ID }

func replacing(c Cluster, all ...replacement) []coordination.Step {
	going, coming := coordination.Members{}, coordination.Members{}
	for _, r := range all {
		for id, members := range map[ID]coordination.Members{r.old: going, r.new: coming} {
			if id != "" {
				members[id] = coordination.Member{Prefix: string(id[:3]), Addresses: []string{"http://" + string(id)}}
			}
		}
	}
	return Arrange(c, nil, ReplacementUnits(c, going, coming))
}

// leaving returns a cluster in which some voters need an action.
func leaving(c Cluster, ids ...ID) Cluster {
	c.Candidates = slices.DeleteFunc(slices.Clone(c.Voters), func(id ID) bool { return slices.Contains(ids, id) })
	return c
}

func none(ID) bool { return false }

func TestRestarting(t *testing.T) {
	t.Parallel()
	three := []ID{"dc1-1", "dc2-1", "dc3-1"}
	for name, test := range map[string]struct {
		c       Cluster
		members []ID
		want    string
	}{
		"all, the leader last, led by one that was restarted": {
			leaving(Cluster{Voters: three, Leader: "dc1-1"}, three...),
			three,
			"restart dc2-1, restart dc3-1, move-leader dc2-1, restart dc1-1",
		},
		"two, led by one that nobody disturbs": {
			leaving(Cluster{Voters: three, Leader: "dc1-1"}, []ID{"dc1-1", "dc2-1"}...),
			[]ID{"dc1-1", "dc2-1"},
			"restart dc2-1, move-leader dc3-1, restart dc1-1",
		},
		"not led by one that leaves": {
			leaving(Cluster{Voters: three, Leader: "dc1-1"}, three...),
			[]ID{"dc1-1", "dc3-1"},
			"restart dc3-1, move-leader dc3-1, restart dc1-1",
		},
		"not led by one that is sick": {
			leaving(Cluster{Voters: three, Leader: "dc3-1", Unhealthy: []ID{"dc1-1"}}, []ID{"dc3-1"}...),
			[]ID{"dc3-1"},
			"move-leader dc2-1, restart dc3-1",
		},
		"led by one that was restarted, rather than by one that is sick": {
			leaving(Cluster{Voters: three, Leader: "dc3-1", Unhealthy: []ID{"dc1-1"}}, []ID{"dc2-1", "dc3-1"}...),
			[]ID{"dc2-1", "dc3-1"},
			"restart dc2-1, move-leader dc2-1, restart dc3-1",
		},
		"led by one that is left out, if nobody else is there": {
			leaving(Cluster{Voters: three, Leader: "dc1-1", Unhealthy: []ID{"dc2-1"}}, three...),
			[]ID{"dc1-1"},
			"move-leader dc3-1, restart dc1-1",
		},
		"nobody is well": {leaving(Cluster{Voters: three, Leader: "dc1-1", Unhealthy: three[1:]}, three...), []ID{"dc1-1"}, "restart dc1-1"},
		"followers only": {leaving(Cluster{Voters: three, Leader: "dc1-1"}, []ID{"dc3-1"}...), []ID{"dc3-1"}, "restart dc3-1"},
		"alone":          {leaving(Cluster{Voters: []ID{"dc1-1"}, Leader: "dc1-1"}, []ID{"dc1-1"}...), []ID{"dc1-1"}, "restart dc1-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, describeSteps(restarting(test.c, test.members...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReplacementUnits(t *testing.T) {
	t.Parallel()
	three := []ID{"dc1-1", "dc2-1", "dc3-1"}
	for name, test := range map[string]struct {
		c     Cluster
		pairs []replacement
		want  string
	}{
		"one in each region": {
			leaving(Cluster{Voters: three, Leader: "dc1-1"}, three...),
			[]replacement{{"dc1-1", "dc1-2"}, {"dc2-1", "dc2-2"}, {"dc3-1", "dc3-2"}},
			"add-learner dc2-2, start dc2-2, promote dc2-2, remove dc2-1, stop dc2-1, " +
				"add-learner dc3-2, start dc3-2, promote dc3-2, remove dc3-1, stop dc3-1, " +
				"add-learner dc1-2, start dc1-2, promote dc1-2, move-leader dc2-2, remove dc1-1, stop dc1-1",
		},
		"led by one that is well": {
			leaving(Cluster{Voters: three, Leader: "dc3-1", Unhealthy: []ID{"dc1-1"}}, []ID{"dc3-1"}...),
			[]replacement{{"dc3-1", "dc3-2"}},
			"add-learner dc3-2, start dc3-2, promote dc3-2, move-leader dc2-1, remove dc3-1, stop dc3-1",
		},
		"one that is not well": {
			leaving(Cluster{Voters: three, Leader: "dc1-1", Unhealthy: []ID{"dc2-1"}}, "dc2-1"),
			[]replacement{{"dc2-1", "dc2-2"}},
			"remove dc2-1, stop dc2-1, add-learner dc2-2, start dc2-2, promote dc2-2",
		},
		"one more": {leaving(Cluster{Voters: three, Leader: "dc1-1"}), []replacement{{new: "dc1-2"}}, "add-learner dc1-2, start dc1-2, promote dc1-2"},
		"one less": {
			leaving(Cluster{Voters: three, Leader: "dc1-1"}, []ID{"dc1-1"}...),
			[]replacement{{old: "dc1-1"}},
			"move-leader dc2-1, remove dc1-1, stop dc1-1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, describeSteps(replacing(test.c, test.pairs...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLosing(t *testing.T) {
	t.Parallel()
	three := []ID{"dc1-1", "dc2-1", "dc3-1"}
	for name, test := range map[string]struct {
		c    Cluster
		lost []ID
		want string
	}{
		"a follower":   {leaving(Cluster{Voters: three, Leader: "dc1-1"}, []ID{"dc3-1"}...), []ID{"dc3-1"}, "remove dc3-1"},
		"the leader":   {leaving(Cluster{Voters: three, Leader: "dc3-1"}, []ID{"dc3-1"}...), []ID{"dc3-1"}, "move-leader dc1-1, remove dc3-1"},
		"nobody leads": {leaving(Cluster{Voters: three}, []ID{"dc3-1"}...), []ID{"dc3-1"}, "remove dc3-1"},
		"all but one":  {leaving(Cluster{Voters: three, Leader: "dc1-1"}, three[1:]...), three[1:], "remove dc2-1, remove dc3-1"},
		"led by one that waits for something else": {
			leaving(Cluster{Voters: three, Leader: "dc2-1"}, three...), three[1:], "remove dc3-1, move-leader dc1-1, remove dc2-1",
		},
		"the last ones": {leaving(Cluster{Voters: three, Leader: "dc2-1"}, three[1:]...), three[1:], "remove dc3-1, move-leader dc1-1, remove dc2-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, describeSteps(losing(test.c, test.lost...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReplan(t *testing.T) {
	t.Parallel()
	three := []ID{"dc1-1", "dc2-1", "dc3-1"}
	restart := restarting(leaving(Cluster{Voters: three, Leader: "dc1-1"}, three...), three...)
	replace := replacing(leaving(Cluster{Voters: three, Leader: "dc1-1"}, three...), replacement{"dc1-1", "dc1-2"}, replacement{"dc2-1", "dc2-2"})
	all := func(ID) bool { return true }
	for name, test := range map[string]struct {
		c      Cluster
		steps  []coordination.Step
		at     int
		wanted func(ID) bool
		want   string
	}{
		"as planned": {
			leaving(Cluster{Voters: three, Leader: "dc1-1"}, []ID{"dc1-1", "dc3-1"}...),
			restart, 0, all,
			"restart dc3-1, move-leader dc2-1, restart dc1-1",
		},
		"another leads by now": {
			leaving(Cluster{Voters: three, Leader: "dc3-1"}, []ID{"dc1-1", "dc3-1"}...),
			restart, 0, all,
			"restart dc1-1, move-leader dc2-1, restart dc3-1",
		},
		"one that is done leads by now": {
			leaving(Cluster{Voters: three, Leader: "dc2-1"}, []ID{"dc1-1", "dc3-1"}...),
			restart, 0, all,
			"restart dc1-1, restart dc3-1",
		},
		"one does not want it any more": {
			leaving(Cluster{Voters: three, Leader: "dc1-1"}, []ID{"dc1-1"}...),
			restart, 0, func(id ID) bool { return id != "dc3-1" },
			"move-leader dc2-1, restart dc1-1",
		},
		"the leader was moved": {
			leaving(Cluster{Voters: three, Leader: "dc2-1"}, []ID{"dc1-1"}...), restart, 2, all, "restart dc1-1",
		},
		"a restart that was given up half-way is not behind its member": {
			leaving(Cluster{Voters: three, Leader: "dc3-1"}, three...),
			slices.Concat(restart[:1], MemberUnits(Restart, "dc3-1")[0], MemberUnits(Restart, "dc2-1")[0]), 0, all,
			"restart dc2-1, move-leader dc2-1, restart dc3-1",
		},
		"the leader was to be moved for what nobody wants any more": {
			leaving(Cluster{Voters: three, Leader: "dc1-1"}, three...),
			replacing(leaving(Cluster{Voters: three, Leader: "dc1-1"}, "dc1-1"), replacement{old: "dc1-1"}),
			0,
			none, "",
		},
		"a replacement that has begun is ended, wanted or not": {
			leaving(Cluster{Voters: three, Leader: "dc1-1"}, three...),
			replace, 0, none,
			"start dc2-2, promote dc2-2, remove dc2-1, stop dc2-1",
		},
		"the one that is being replaced leads by now": {
			leaving(Cluster{Voters: append(three, "dc2-2"), Leader: "dc2-1"}, three...),
			replace, 2, all,
			"move-leader dc2-2, remove dc2-1, stop dc2-1, add-learner dc1-2, start dc1-2, promote dc1-2, remove dc1-1, stop dc1-1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, describeSteps(Replan(test.c, test.steps[:test.at+1], test.steps[test.at+1:], test.wanted, none))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A member whose replacement was left out is not removed; the others are replaced.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	three := []ID{"dc1-1", "dc2-1", "dc3-1"}
	c := leaving(Cluster{Voters: three, Leader: "dc3-1"}, three[:2]...)
	steps := replacing(c, replacement{"dc1-1", "dc1-2"}, replacement{"dc2-1", "dc2-2"})
	const start = 1
	got := Replan(c, steps[:start+1], steps[start+1:], func(ID) bool { return true }, func(id ID) bool { return id == "dc1-2" })
	want := "add-learner dc2-2, start dc2-2, promote dc2-2, remove dc2-1, stop dc2-1"
	if diff := cmp.Diff(want, describeSteps(got)); diff != "" {
		t.Error(diff)
	}
}

// Unhealthy members come first: the system may not be able to spare another one.
func TestUnhealthyMembersComeFirst(t *testing.T) {
	t.Parallel()
	three := []ID{"dc1-1", "dc2-1", "dc3-1"}
	c := leaving(Cluster{Voters: three, Leader: "dc1-1", Unhealthy: three[2:]}, three...)
	if diff := cmp.Diff("restart dc3-1, restart dc2-1, move-leader dc2-1, restart dc1-1", describeSteps(restarting(c, three...))); diff != "" {
		t.Error(diff)
	}
}

// For random clusters and leader changes: all pending actions are done once and in order, the leader is not
// disturbed while another healthy member exists, no unhealthy member becomes the leader, and without unexpected
// events the leader changes at most once.
func TestPlans(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		simulate(t, random)
	}
	if t.Failed() {
		t.Log("seed: ", seed)
	}
}

func simulate(t *testing.T, random *rand.Rand) {
	t.Helper()
	c := Cluster{}
	var pairs []replacement
	var leave []ID
	for i := range 1 + random.IntN(5) {
		id := ID(fmt.Sprintf("dc%d-1", i))
		c.Voters = append(c.Voters, id)
		if i == 0 || random.IntN(2) == 0 {
			pairs = append(pairs, replacement{id, ID(fmt.Sprintf("dc%d-2", i))})
			leave = append(leave, id)
		}
	}
	c.Leader = c.Voters[random.IntN(len(c.Voters))]
	for _, id := range c.Voters {
		if id != c.Leader && !slices.Contains(leave, id) && random.IntN(2) == 0 {
			c.Unhealthy = append(c.Unhealthy, id)
		}
	}
	c = leaving(c, leave...)
	accidents := random.IntN(3) == 0
	steps := replacing(c, pairs...)
	if random.IntN(2) == 0 {
		steps = restarting(c, leave...)
	}
	planned, moves, removed := len(leave), 0, 0
	for index := 0; index < len(steps); index++ {
		step := steps[index]
		switch step.Do {
		case MoveLeader:
			moves++
			c.Leader = step.Member()
			if slices.Contains(c.Unhealthy, step.Member()) {
				t.Errorf("%s cannot lead: %s", step.Member(), describeSteps(steps))
			}
		case Promote:
			c.Voters = append(c.Voters, step.Member())
		case Remove, Restart:
			removed++
			if step.Member() == c.Leader && len(c.Voters) > 1+len(c.Unhealthy) {
				t.Errorf("%s disturbs the leader: %s", describeSteps(steps[index:index+1]), describeSteps(steps))
			}
			if step.Do == Remove {
				c.Voters = slices.DeleteFunc(c.Voters, func(id ID) bool { return id == step.Member() })
			}
			leave = slices.DeleteFunc(leave, func(id ID) bool { return id == step.Member() })
		}
		if accidents && random.IntN(4) == 0 {
			c.Leader = c.Voters[random.IntN(len(c.Voters))]
			c.Unhealthy = slices.DeleteFunc(c.Unhealthy, func(id ID) bool { return id == c.Leader }) // the leader is healthy
		}
		c = leaving(c, leave...)
		steps = append(steps[:index+1:index+1], Replan(c, steps[:index+1], steps[index+1:], func(ID) bool { return true }, none)...)
	}
	if removed != planned {
		t.Errorf("%d of %d members were done: %s", removed, planned, describeSteps(steps))
	}
	if !accidents && moves > 1 {
		t.Errorf("the leader changes %d times: %s", moves, describeSteps(steps))
	}
}
