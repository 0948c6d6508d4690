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

func brief(steps []coordination.Step) string {
	words := make([]string, 0, len(steps))
	for _, step := range steps {
		words = append(words, step.Do+" "+string(step.Member))
	}
	return strings.Join(words, ", ")
}

func TestForRestart(t *testing.T) {
	t.Parallel()
	three := []ID{"dc1-1", "dc2-1", "dc3-1"}
	for name, test := range map[string]struct {
		c       Cluster
		members []ID
		want    string
	}{
		"all, the leader last, led by one that was restarted": {
			Cluster{Voters: three, Leader: "dc1-1", Leaving: three},
			three,
			"restart dc2-1, restart dc3-1, move-leader dc2-1, restart dc1-1",
		},
		"two, led by one that nobody disturbs": {
			Cluster{Voters: three, Leader: "dc1-1", Leaving: []ID{"dc1-1", "dc2-1"}},
			[]ID{"dc1-1", "dc2-1"},
			"restart dc2-1, move-leader dc3-1, restart dc1-1",
		},
		"not led by one that leaves": {
			Cluster{Voters: three, Leader: "dc1-1", Leaving: three},
			[]ID{"dc1-1", "dc3-1"},
			"restart dc3-1, move-leader dc3-1, restart dc1-1",
		},
		"not led by one that is sick": {
			Cluster{Voters: three, Leader: "dc3-1", Leaving: []ID{"dc3-1"}, Sick: []ID{"dc1-1"}},
			[]ID{"dc3-1"},
			"move-leader dc2-1, restart dc3-1",
		},
		"led by one that was restarted, rather than by one that is sick": {
			Cluster{Voters: three, Leader: "dc3-1", Leaving: []ID{"dc2-1", "dc3-1"}, Sick: []ID{"dc1-1"}},
			[]ID{"dc2-1", "dc3-1"},
			"restart dc2-1, move-leader dc2-1, restart dc3-1",
		},
		"led by one that is left out, if nobody else is there": {
			Cluster{Voters: three, Leader: "dc1-1", Leaving: three, Sick: []ID{"dc2-1"}},
			[]ID{"dc1-1"},
			"move-leader dc3-1, restart dc1-1",
		},
		"nobody is well": {Cluster{Voters: three, Leader: "dc1-1", Leaving: three, Sick: three[1:]}, []ID{"dc1-1"}, "restart dc1-1"},
		"followers only": {Cluster{Voters: three, Leader: "dc1-1", Leaving: []ID{"dc3-1"}}, []ID{"dc3-1"}, "restart dc3-1"},
		"alone":          {Cluster{Voters: []ID{"dc1-1"}, Leader: "dc1-1", Leaving: []ID{"dc1-1"}}, []ID{"dc1-1"}, "restart dc1-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, brief(ForRestart(test.c, test.members))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestForReplacement(t *testing.T) {
	t.Parallel()
	three := []ID{"dc1-1", "dc2-1", "dc3-1"}
	for name, test := range map[string]struct {
		c     Cluster
		pairs []Replacement
		want  string
	}{
		"one in each region": {
			Cluster{Voters: three, Leader: "dc1-1", Leaving: three},
			[]Replacement{{"dc1-1", "dc1-2"}, {"dc2-1", "dc2-2"}, {"dc3-1", "dc3-2"}},
			"add-learner dc2-2, start dc2-2, promote dc2-2, remove dc2-1, stop dc2-1, " +
				"add-learner dc3-2, start dc3-2, promote dc3-2, remove dc3-1, stop dc3-1, " +
				"add-learner dc1-2, start dc1-2, promote dc1-2, move-leader dc2-2, remove dc1-1, stop dc1-1",
		},
		"led by one that is well": {
			Cluster{Voters: three, Leader: "dc3-1", Leaving: []ID{"dc3-1"}, Sick: []ID{"dc1-1"}},
			[]Replacement{{"dc3-1", "dc3-2"}},
			"add-learner dc3-2, start dc3-2, promote dc3-2, move-leader dc2-1, remove dc3-1, stop dc3-1",
		},
		"one more": {Cluster{Voters: three, Leader: "dc1-1"}, []Replacement{{New: "dc1-2"}}, "add-learner dc1-2, start dc1-2, promote dc1-2"},
		"one less": {
			Cluster{Voters: three, Leader: "dc1-1", Leaving: []ID{"dc1-1"}},
			[]Replacement{{Old: "dc1-1"}},
			"move-leader dc2-1, remove dc1-1, stop dc1-1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, brief(ForReplacement(test.c, test.pairs))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestForLost(t *testing.T) {
	t.Parallel()
	three := []ID{"dc1-1", "dc2-1", "dc3-1"}
	for name, test := range map[string]struct {
		c    Cluster
		lost []ID
		want string
	}{
		"a follower":   {Cluster{Voters: three, Leader: "dc1-1", Leaving: []ID{"dc3-1"}}, []ID{"dc3-1"}, "remove dc3-1"},
		"the leader":   {Cluster{Voters: three, Leader: "dc3-1", Leaving: []ID{"dc3-1"}}, []ID{"dc3-1"}, "move-leader dc1-1, remove dc3-1"},
		"nobody leads": {Cluster{Voters: three, Leaving: []ID{"dc3-1"}}, []ID{"dc3-1"}, "remove dc3-1"},
		"all but one":  {Cluster{Voters: three, Leader: "dc1-1", Leaving: three[1:]}, three[1:], "remove dc2-1, remove dc3-1"},
		"led by one that waits for something else": {
			Cluster{Voters: three, Leader: "dc2-1", Leaving: three}, three[1:], "remove dc3-1, move-leader dc1-1, remove dc2-1",
		},
		"the last ones": {Cluster{Voters: three, Leader: "dc2-1", Leaving: three[1:]}, three[1:], "remove dc3-1, move-leader dc1-1, remove dc2-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, brief(ForLost(test.c, test.lost))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPairs(t *testing.T) {
	t.Parallel()
	got := Pairs(
		coordination.Members{"dc1-1": {Prefix: "dc1"}, "dc1-2": {Prefix: "dc1"}, "dc2-1": {Prefix: "dc2"}},
		coordination.Members{"dc1-3": {Prefix: "dc1"}, "dc2-4": {Prefix: "dc2"}, "dc2-3": {Prefix: "dc2"}, "dc10-1": {Prefix: "dc10"}},
	)
	want := []Replacement{{"dc1-1", "dc1-3"}, {Old: "dc1-2"}, {New: "dc10-1"}, {"dc2-1", "dc2-3"}, {New: "dc2-4"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAgain(t *testing.T) {
	t.Parallel()
	three := []ID{"dc1-1", "dc2-1", "dc3-1"}
	restart := ForRestart(Cluster{Voters: three, Leader: "dc1-1", Leaving: three}, three)
	replace := ForReplacement(Cluster{Voters: three, Leader: "dc1-1", Leaving: three}, []Replacement{{"dc1-1", "dc1-2"}, {"dc2-1", "dc2-2"}})
	all := func(ID) bool { return true }
	for name, test := range map[string]struct {
		c      Cluster
		steps  []coordination.Step
		at     int
		wanted func(ID) bool
		want   string
	}{
		"as planned": {
			Cluster{Voters: three, Leader: "dc1-1", Leaving: []ID{"dc1-1", "dc3-1"}},
			restart, 0, all,
			"restart dc3-1, move-leader dc2-1, restart dc1-1",
		},
		"another leads by now": {
			Cluster{Voters: three, Leader: "dc3-1", Leaving: []ID{"dc1-1", "dc3-1"}},
			restart, 0, all,
			"restart dc1-1, move-leader dc2-1, restart dc3-1",
		},
		"one that is done leads by now": {
			Cluster{Voters: three, Leader: "dc2-1", Leaving: []ID{"dc1-1", "dc3-1"}},
			restart, 0, all,
			"restart dc3-1, restart dc1-1",
		},
		"one does not want it any more": {
			Cluster{Voters: three, Leader: "dc1-1", Leaving: []ID{"dc1-1"}},
			restart, 0, func(id ID) bool { return id != "dc3-1" },
			"move-leader dc2-1, restart dc1-1",
		},
		"the leader was moved": {
			Cluster{Voters: three, Leader: "dc2-1", Leaving: []ID{"dc1-1"}}, restart, 2, all, "restart dc1-1",
		},
		"a restart that was given up half-way is not behind its member": {
			Cluster{Voters: three, Leader: "dc3-1", Leaving: three},
			slices.Concat(restart[:1], []coordination.Step{{Do: Restart, Member: "dc3-1"}, {Do: Restart, Member: "dc2-1"}}), 0, all,
			"restart dc2-1, move-leader dc2-1, restart dc3-1",
		},
		"the leader was to be moved for what nobody wants any more": {
			Cluster{Voters: three, Leader: "dc1-1", Leaving: three},
			[]coordination.Step{{Do: MoveLeader, Member: "dc2-1"}, {Do: Remove, Member: "dc1-1"}, {Do: Stop, Member: "dc1-1"}},
			0,
			func(ID) bool { return false }, "",
		},
		"a replacement that has begun is ended, wanted or not": {
			Cluster{Voters: three, Leader: "dc1-1", Leaving: three},
			replace, 0, func(ID) bool { return false },
			"start dc2-2, promote dc2-2, remove dc2-1, stop dc2-1",
		},
		"the one that is being replaced leads by now": {
			Cluster{Voters: append(three, "dc2-2"), Leader: "dc2-1", Leaving: three},
			replace, 2, all,
			"move-leader dc2-2, remove dc2-1, stop dc2-1, add-learner dc1-2, start dc1-2, promote dc1-2, remove dc1-1, stop dc1-1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, brief(Again(test.c, test.steps, test.at, test.wanted))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	three := []ID{"dc1-1", "dc2-1", "dc3-1"}
	restart := ForRestart(Cluster{Voters: three, Leader: "dc1-1", Leaving: three}, three)
	replace := ForReplacement(Cluster{Voters: three, Leader: "dc3-1", Leaving: three}, []Replacement{{"dc1-1", "dc1-2"}, {"dc2-1", "dc2-2"}})
	for name, test := range map[string]struct {
		steps []coordination.Step
		at    int
		want  string
	}{
		"a restart":                       {restart, 0, "restart dc3-1, restart dc1-1"},
		"the last restart":                {restart, 3, "restart dc2-1, restart dc3-1, move-leader dc2-1"},
		"a replacement that cannot start": {replace, 1, "add-learner dc1-2, add-learner dc2-2, start dc2-2, promote dc2-2, remove dc2-1, stop dc2-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, brief(Without(test.steps, test.at))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever the cluster, and whoever leads meanwhile: everything that is wanted is done once and in order, never to the
// leader of a cluster that has others who are well, nobody sick gets to lead, and without accidents the leader changes at
// most once.
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
	var pairs []Replacement
	for i := range 1 + random.IntN(5) {
		id := ID(fmt.Sprintf("dc%d-1", i))
		c.Voters = append(c.Voters, id)
		if i == 0 || random.IntN(2) == 0 {
			pairs = append(pairs, Replacement{id, ID(fmt.Sprintf("dc%d-2", i))})
			c.Leaving = append(c.Leaving, id)
		}
	}
	c.Leader = c.Voters[random.IntN(len(c.Voters))]
	for _, id := range c.Voters {
		if id != c.Leader && !slices.Contains(c.Leaving, id) && random.IntN(2) == 0 {
			c.Sick = append(c.Sick, id)
		}
	}
	accidents := random.IntN(3) == 0
	steps := ForReplacement(c, pairs)
	if random.IntN(2) == 0 {
		steps = ForRestart(c, c.Leaving)
	}
	planned, moves, removed := len(c.Leaving), 0, 0
	for at := 0; at < len(steps); at++ {
		step := steps[at]
		switch step.Do {
		case MoveLeader:
			moves++
			c.Leader = step.Member
			if slices.Contains(c.Sick, step.Member) {
				t.Errorf("%s cannot lead: %s", step.Member, brief(steps))
			}
		case Promote:
			c.Voters = append(c.Voters, step.Member)
		case Remove, Restart:
			removed++
			if step.Member == c.Leader && len(c.Voters) > 1+len(c.Sick) {
				t.Errorf("%s disturbs the leader: %s", brief(steps[at:at+1]), brief(steps))
			}
			if step.Do == Remove {
				c.Voters = slices.DeleteFunc(c.Voters, func(id ID) bool { return id == step.Member })
			}
			c.Leaving = slices.DeleteFunc(c.Leaving, func(id ID) bool { return id == step.Member })
		}
		if accidents && random.IntN(4) == 0 {
			c.Leader = c.Voters[random.IntN(len(c.Voters))]
			c.Sick = slices.DeleteFunc(c.Sick, func(id ID) bool { return id == c.Leader }) // who leads is well
		}
		steps = append(steps[:at+1:at+1], Again(c, steps, at, func(ID) bool { return true })...)
	}
	if removed != planned {
		t.Errorf("%d of %d members were done: %s", removed, planned, brief(steps))
	}
	if !accidents && moves > 1 {
		t.Errorf("the leader changes %d times: %s", moves, brief(steps))
	}
}
