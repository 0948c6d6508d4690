package operator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

func TestIncludeBegins(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state    *system.State
		dc2, dc3 coordination.Wants
		told     string
		waits    string
	}{
		"one":               {three(), comes("dc2-2"), nil, "add-learner dc2-2, start dc2-2, promote dc2-2", ""},
		"two":               {three(), comes("dc2-2"), comes("dc3-2"), "add-learner dc2-2, start dc2-2, promote dc2-2, add-learner dc3-2, start dc3-2, promote dc3-2", ""},
		"one for another":   {three(), and(goes("dc2-1"), comes("dc2-2")), nil, "done", ""},
		"one after another": {agreed(member(1, "dc1-1"), learner(4, "dc3-2")), comes("dc2-2"), nil, "done", "Inclusion waits: dc3-2 is still a learner"},
		"one that learns":   {agreed(member(1, "dc1-1"), learner(4, "dc2-2")), comes("dc2-2"), nil, "add-learner dc2-2, start dc2-2, promote dc2-2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, test.state, "dc1", "dc2", "dc3")
			p.says("dc2", test.dc2)
			p.says("dc3", test.dc3)
			r := p.next("dc1", test.state)
			p.must(r.include(t.Context()))
			if got := p.told(); got != test.told {
				t.Errorf("%s, not %s", got, test.told)
			}
			if r.waiting != test.waits {
				t.Errorf("it waits for %q, not for %q", r.waiting, test.waits)
			}
		})
	}
}

func TestIncludeDoes(t *testing.T) {
	t.Parallel()
	peer := map[string]string{withPeer: "http://dc2-2"}
	steps := []coordination.Step{
		{Do: plan.AddLearner, Member: "dc2-2", With: peer}, order(plan.Start, "dc2-2"), {Do: plan.Promote, Member: "dc2-2", With: peer},
	}
	with := func(m system.Member) *system.State {
		return agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"), m)
	}
	expected := sick(learner(4, "dc2-2"))
	expected.Name = ""
	late := func(p *play) {
		goOnAfter(p.rounds["dc1"], time.Minute)
		p.rounds["dc1"].overdue(steps[2])
		p.wait(time.Hour)
	}
	for name, test := range map[string]struct {
		at    int
		state *system.State
		then  func(*play)
		fails error
		did   []string
		told  string
		waits string
	}{
		"add it":                      {0, three(), nil, nil, []string{"add http://dc2-2"}, brief(steps), "dc2-2 has to be known to the system"},
		"add it, as it is there":      {0, with(expected), nil, nil, nil, brief(steps[1:]), ""},
		"start it":                    {1, with(expected), nil, nil, nil, brief(steps[1:]), "start has to be done to dc2-2 by its operator"},
		"start it, as it is started":  {1, with(expected), func(p *play) { p.answers("dc2", "dc2-2", "") }, nil, nil, brief(steps[2:]), ""},
		"start it, which is refused":  {1, with(expected), func(p *play) { p.answers("dc2", "dc2-2", "no") }, nil, []string{"remove 4"}, "given up: start of dc2-2: no", ""},
		"let it vote":                 {2, with(learner(4, "dc2-2")), nil, nil, []string{"promote 4"}, brief(steps[2:]), "dc2-2 has to have its vote"},
		"let it vote, which it does":  {2, with(member(4, "dc2-2")), nil, nil, nil, "done", ""},
		"let it vote, too early":      {2, with(learner(4, "dc2-2")), nil, system.ErrNotInSync, []string{"promote 4"}, brief(steps[2:]), system.ErrNotInSync.Error()},
		"let it vote, slowly":         {2, with(learner(4, "dc2-2")), late, system.ErrNotInSync, []string{"promote 4"}, brief(steps[2:]), system.ErrNotInSync.Error()},
		"let it vote, which is sick":  {2, with(sick(member(4, "dc2-2"))), nil, nil, nil, brief(steps[2:]), "dc2-2 is not well yet: it does not answer"},
		"let it vote, but it is gone": {2, three(), nil, nil, nil, "given up: the system does not know dc2-2 any more", ""},
		"let it vote, but it cannot start": {
			2, with(expected), late, nil, []string{"remove 4"}, "given up: dc2-2 is not well in time: it does not answer", "",
		},
		"it could not start, and was given something else": {
			2, with(expected), func(p *play) { p.says("dc2", and(comes("dc2-2"), restarts("dc2-2"))) }, nil, nil, "restart dc2-2, promote dc2-2", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, three(), "dc1", "dc2", "dc3")
			p.says("dc2", comes("dc2-2"))
			p.acts("dc1", coordination.Inclusion, steps...)
			for at := range test.at {
				p.must(p.rounds["dc1"].task.advance(t.Context(), steps[at+1:]))
			}
			if test.then != nil {
				test.then(p)
			}
			r := p.next("dc1", test.state)
			r.system.(*fakeSystem).fails = test.fails
			p.must(r.include(t.Context()))
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
