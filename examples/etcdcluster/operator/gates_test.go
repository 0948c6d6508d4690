package operator

import (
	"testing"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// A plan that begins with a move of the leader is looked at as far as what it is moved for.
func TestClosedToBegin(t *testing.T) {
	t.Parallel()
	steps := []coordination.Step{{Do: plan.MoveLeader, Member: "dc2-1"}, {Do: plan.Restart, Member: "dc1-1", Order: true}}
	for name, test := range map[string]struct {
		state *system.State
		want  string
	}{
		"one of three may be restarted": {agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1")), ""},
		"one of two may not":            {agreed(member(1, "dc1-1"), member(2, "dc2-1")), "without dc1-1 the system has no quorum"},
		"nobody to lead":                {agreed(member(1, "dc1-1"), sick(member(2, "dc2-1")), member(3, "dc3-1")), "dc2-1 is not well and cannot lead: it does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &round{state: test.state}
			if got := r.closedToBegin(steps); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	step := func(do string, id coordination.MemberID) coordination.Step {
		return coordination.Step{Do: do, Member: id}
	}
	three := agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"))
	oneSick := agreed(member(1, "dc1-1"), member(2, "dc2-1"), sick(member(3, "dc3-1")))
	for name, test := range map[string]struct {
		state  *system.State
		step   coordination.Step
		before []coordination.Step
		want   string
	}{
		"nobody answers":                {nil, step(plan.Restart, "dc2-1"), nil, "no member of the system answers"},
		"no quorum":                     {agreed(member(1, "dc1-1"), sick(member(2, "dc2-1"))), step(plan.Restart, "dc2-1"), nil, "the system has no quorum"},
		"a follower may be restarted":   {three, step(plan.Restart, "dc2-1"), nil, ""},
		"the leader may not":            {three, step(plan.Restart, "dc1-1"), nil, "dc1-1 leads"},
		"a leader that is alone may":    {agreed(member(1, "dc1-1")), step(plan.Restart, "dc1-1"), nil, ""},
		"one that is needed may not":    {oneSick, step(plan.Restart, "dc2-1"), nil, "without dc2-1 the system has no quorum"},
		"one that is sick may":          {oneSick, step(plan.Restart, "dc3-1"), nil, ""},
		"the one before is not well":    {oneSick, step(plan.Restart, "dc2-1"), []coordination.Step{step(plan.Restart, "dc3-1")}, "dc3-1 is not well after its restart: it does not answer"},
		"one that is dead may go":       {oneSick, step(plan.Remove, "dc3-1"), nil, ""},
		"one that is needed may not go": {oneSick, step(plan.Remove, "dc2-1"), nil, "without dc2-1 the system has no quorum"},
		"the leader may not go":         {three, step(plan.Remove, "dc1-1"), nil, "dc1-1 leads"},
		"one learner at a time": {
			agreed(member(1, "dc1-1"), learner(2, "dc2-1")), step(plan.AddLearner, "dc3-1"), nil, "dc2-1 is still a learner",
		},
		"a sick member cannot lead": {oneSick, step(plan.MoveLeader, "dc3-1"), nil, "dc3-1 is not well and cannot lead: it does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &round{state: test.state}
			if got := r.closed(test.step, test.before); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
