package operator

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// changedArgs is a member that has other arguments for its next start.
func changedArgs(id string) agent.Member {
	p := process(id, agent.Running)
	p.Applied = map[string]string{"old": "1"}
	return p
}

// An order may be older than an accident.
func TestObeyRestart(t *testing.T) {
	t.Parallel()
	leads := func(id system.ID, s *system.State) *system.State { s.Leader = id; return s }
	did := changedArgs("dc2-1")
	did.LastOrder = "1/0/restart"
	for name, test := range map[string]struct {
		state    *system.State
		process  agent.Member
		did      []string
		waits    string
		answered bool
	}{
		"as it was": {agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1")), changedArgs("dc2-1"), []string{"restart dc2-1"}, "", true},
		"another one has died": {
			agreed(member(1, "dc1-1"), member(2, "dc2-1"), sick(member(3, "dc3-1"))), changedArgs("dc2-1"), nil, "without dc2-1 the system has no quorum", false,
		},
		"it leads by now": {
			leads(2, agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"))), changedArgs("dc2-1"), nil, "dc2-1 leads", false,
		},
		"nobody answers": {nil, changedArgs("dc2-1"), nil, "no member of the system answers", false},
		"nobody agrees":  {&system.State{Members: []system.Member{member(2, "dc2-1")}}, changedArgs("dc2-1"), nil, "the system has no quorum", false},
		"it does not want it any more": {
			agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1")), process("dc2-1", agent.Running), nil, "", true,
		},
		"it was carried out before another one died": {
			agreed(member(1, "dc1-1"), sick(member(2, "dc2-1")), sick(member(3, "dc3-1"))), did, nil, "", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1")), "dc1", "dc2")
			p.says("dc2", wants(coordination.PendingForRestart, "dc2-1", coordination.ReadyForRestart, "dc2-1"))
			p.acts("dc1", coordination.Restart, order(plan.Restart, "dc2-1"))
			r := p.next("dc2", test.state, test.process)
			p.must(r.obey(t.Context()))
			if diff := cmp.Diff(test.did, r.agent.(*fakeAgent).made); diff != "" {
				t.Error(diff)
			}
			if !strings.HasSuffix(r.waiting, test.waits) || (r.waiting == "") != (test.waits == "") {
				t.Errorf("it waits for %q, not for %q", r.waiting, test.waits)
			}
			p.must(r.look(t.Context()))
			if _, answered := r.view.Answers["dc2-1"]; answered != test.answered {
				t.Errorf("answered: %t", answered)
			}
		})
	}
}

// What was carried out is told when it is said to have been, once.
func TestObeyedOnce(t *testing.T) {
	t.Parallel()
	state := agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"))
	p := setting(t, state, "dc1", "dc2")
	p.says("dc2", wants(coordination.PendingForRestart, "dc2-1", coordination.ReadyForRestart, "dc2-1"))
	p.acts("dc1", coordination.Restart, order(plan.Restart, "dc2-1"))
	noted := 0
	for _, broken := range []error{errors.New("the store is away"), nil, nil} {
		r := p.next("dc2", state, changedArgs("dc2-1"))
		r.note = func(string, string) { noted++ }
		p.store.broken = broken
		if err := r.obey(t.Context()); (err != nil) != (broken != nil) {
			t.Errorf("got %v", err)
		}
	}
	if noted != 1 {
		t.Errorf("noted %d times", noted)
	}
}

// Who was ordered to restart has become the leader: that it gives its part away comes first.
func TestOrderedLeader(t *testing.T) {
	t.Parallel()
	state := agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"))
	p := setting(t, state, "dc1", "dc2", "dc3")
	for _, region := range []string{"dc2", "dc3"} {
		p.says(region, wants(coordination.PendingForRestart, region+"-1", coordination.ReadyForRestart, region+"-1"))
	}
	p.acts("dc1", coordination.Restart, order(plan.Restart, "dc2-1"), order(plan.Restart, "dc3-1"))
	state.Leader = 2
	r := p.next("dc1", state)
	p.must(r.restart(t.Context()))
	if got, want := p.told(), "restart dc3-1, move-leader dc1-1, restart dc2-1"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
