package operator

import (
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

var restartSets = []any{coordination.PendingForRestart, coordination.ReadyForRestart}

// restarts are the entries of members that wait for a restart and are ready for it.
func restarts(ids string) coordination.Wants { return wants(restartSets[0], ids, restartSets[1], ids) }

func TestRestart(t *testing.T) {
	t.Parallel()
	behind := three()
	behind.Members[1].Health.Lag = 5000
	for name, test := range map[string]struct {
		state *system.State
		then  func(p *play)
		told  string
		waits string
	}{
		"nobody has answered": {three(), func(*play) {}, "restart dc2-1, restart dc3-1", "restart has to be done to dc2-1 by its operator"},
		"it is well again": {
			three(), func(p *play) { p.answers("dc2", "dc2-1", "") }, "restart dc3-1", "",
		},
		"it is not well yet": {
			agreed(member(1, "dc1-1"), sick(member(2, "dc2-1")), member(3, "dc3-1")), func(p *play) { p.answers("dc2", "dc2-1", "") },
			"restart dc2-1, restart dc3-1", "dc2-1 is not well again yet: it does not answer",
		},
		"it is far behind": {
			behind, func(p *play) { p.answers("dc2", "dc2-1", "") },
			"restart dc2-1, restart dc3-1", "dc2-1 is not well again yet: it is 5000 entries behind",
		},
		"it could not start, and was given something else": {
			agreed(member(1, "dc1-1"), sick(member(2, "dc2-1")), member(3, "dc3-1")),
			func(p *play) {
				p.answers("dc2", "dc2-1", "")
				p.says("dc2", nil)
				p.says("dc2", restarts("dc2-1"))
			},
			"restart dc2-1, restart dc3-1", "", // the same, one step later
		},
		"it could not start, and nobody waits for ever": {
			agreed(member(1, "dc1-1"), sick(member(2, "dc2-1")), member(3, "dc3-1")),
			func(p *play) {
				p.answers("dc2", "dc2-1", "")
				goOnAfter(p.rounds["dc1"], time.Minute)
				p.rounds["dc1"].overdue(order(plan.Restart, "dc2-1"))
				p.wait(time.Hour)
			},
			"given up: dc2-1 is not well again in time: it does not answer", "",
		},
		"its agent refuses it": {
			three(), func(p *play) { p.answers("dc2", "dc2-1", "there is no such member") },
			"given up: restart of dc2-1: there is no such member", "",
		},
		"it is withdrawn": {three(), func(p *play) { p.says("dc2", nil) }, "restart dc3-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, three(), "dc1", "dc2", "dc3")
			p.says("dc2", restarts("dc2-1"))
			p.says("dc3", restarts("dc3-1"))
			p.acts("dc1", coordination.Restart, order(plan.Restart, "dc2-1"), order(plan.Restart, "dc3-1"))
			test.then(p)
			r := p.next("dc1", test.state)
			p.must(r.restart(t.Context()))
			if got := p.told(); got != test.told {
				t.Errorf("%s, not %s", got, test.told)
			}
			if r.waiting != test.waits {
				t.Errorf("it waits for %q, not for %q", r.waiting, test.waits)
			}
		})
	}
}

// In local mode too a member that cannot start with what it was given is restarted with something else.
func TestRestartAgainLocally(t *testing.T) {
	t.Parallel()
	p := setting(t, three(), "dc2")
	r := p.next("dc2", agreed(member(1, "dc1-1"), sick(member(2, "dc2-1")), member(3, "dc3-1")), changedArgs("dc2-1"))
	r.cluster.Spec.AutomationOptions.SynchronizationMode = "local"
	grant, err := r.c.Lock(t.Context())
	p.must(err)
	r.task = &task{grant: grant, action: coordination.Restart, steps: []coordination.Step{order(plan.Restart, "dc2-1")}}
	done := r.processes["dc2-1"]
	done.LastOrder = orderID(r.own(r.task.steps[0]))
	r.processes["dc2-1"] = done
	p.must(r.restart(t.Context()))
	if got, want := brief(r.task.steps[r.task.at:]), "restart dc2-1"; r.task.at != 1 || got != want {
		t.Errorf("at step %d: %s, not %s", r.task.at, got, want)
	}
}
