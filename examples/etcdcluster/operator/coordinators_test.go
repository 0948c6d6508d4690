package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

func TestChangeCoordinators(t *testing.T) {
	t.Parallel()
	led := func(leader system.ID, members ...system.Member) *system.State {
		s := agreed(members...)
		s.Leader = leader
		return s
	}
	one, two, three := member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1")
	for name, test := range map[string]struct {
		state *system.State
		fails error
		also  coordination.Wants // of dc2
		did   []string
		told  string
		waits string
	}{
		"to one that stays": {
			led(1, one, two, three), nil, nil, []string{"move 1 to 2"}, "move-leader dc2-1, restart dc1-1", "dc2-1 has to lead",
		},
		"it leads":                       {led(2, one, two, three), nil, nil, nil, "restart dc1-1", ""},
		"another one leads":              {led(3, one, two, three), nil, nil, nil, "restart dc1-1", ""},
		"another one leads, as it turns": {led(1, one, two, three), system.ErrOtherLeader, nil, []string{"move 1 to 2"}, "move-leader dc2-1, restart dc1-1", ""},
		"it is sick, and another one is not": {
			led(1, one, sick(two), three), nil, nil, nil, "move-leader dc3-1, restart dc1-1", "",
		},
		"it waits for a restart itself": {
			led(1, one, two, three), nil, restarts("dc2-1"), nil, "move-leader dc3-1, restart dc1-1", "",
		},
		"all others wait, and one leads twice": {
			led(1, one, two), nil, restarts("dc2-1"), []string{"move 1 to 2"}, "move-leader dc2-1, restart dc1-1", "dc2-1 has to lead",
		},
		"nobody else is well": {
			led(1, one, sick(two), sick(three)), nil, nil, nil, "move-leader dc2-1, restart dc1-1", "the system has no quorum",
		},
		"it is as good as another": {led(1, one, two, three, member(4, "dc1-2")), nil, nil, []string{"move 1 to 2"}, "move-leader dc2-1, restart dc1-1", "dc2-1 has to lead"},
		"it is unknown":            {led(1, one, three), nil, nil, nil, "move-leader dc3-1, restart dc1-1", ""},
		"the system cannot do now": {led(1, one, two, three), system.ErrNoLeader, nil, []string{"move 1 to 2"}, "move-leader dc2-1, restart dc1-1", system.ErrNoLeader.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, test.state, "dc1", "dc2", "dc3")
			p.says("dc1", restarts("dc1-1"))
			p.acts("dc1", coordination.Restart, coordination.Step{Do: plan.MoveLeader, Member: "dc2-1"}, order(plan.Restart, "dc1-1"))
			p.says("dc2", test.also)
			r := p.next("dc1", test.state)
			r.system.(*fakeSystem).fails = test.fails
			p.must(r.changeCoordinators(t.Context()))
			if diff := cmp.Diff(test.did, r.system.(*fakeSystem).made); diff != "" {
				t.Error(diff)
			}
			if got := p.told(); got != test.told {
				t.Errorf("%s, not %s", got, test.told)
			}
			if r.waiting != test.waits {
				t.Errorf("it waits for %q, not for %q", r.waiting, test.waits)
			}
		})
	}
}
