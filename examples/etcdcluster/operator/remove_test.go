package operator

import (
	"testing"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

func TestRemoveBegins(t *testing.T) {
	t.Parallel()
	lost := func(id string) coordination.Wants { return wants(coordination.PendingForRemoval, id) }
	expected := learner(9, "")
	expected.PeerURLs = []string{"http://dc2-2"}
	withLearner := agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"), expected)
	for name, test := range map[string]struct {
		state    *system.State
		dc1, dc2 coordination.Wants
		told     string
		waits    string
	}{
		"one of a lost region": {agreed(member(1, "dc1-1"), member(2, "dc2-1"), sick(member(3, "dc3-1"))), lost("dc3-1"), nil, "remove dc3-1", ""},
		"one that leads":       {three(), lost("dc1-1"), nil, "move-leader dc2-1, remove dc1-1", ""},
		"one that is replaced": {three(), nil, goes("dc2-1"), "done", ""},
		"too many at once": {
			agreed(member(1, "dc1-1"), sick(member(2, "dc2-1")), sick(member(3, "dc3-1"))), lost("dc3-1"), nil, "done", "Removal waits: the system has no quorum",
		},
		"a learner that nobody lets come":                      {withLearner, lost("learner:9"), nil, "remove learner:9", ""},
		"a learner that somebody lets come":                    {withLearner, lost("learner:9"), comes("dc2-2"), "done", ""},
		"a learner that votes by now":                          {agreed(member(1, "dc1-1"), member(9, "dc2-2"), member(3, "dc3-1")), lost("learner:9"), nil, "done", ""},
		"a learner that nobody lets come, and a lost one, too": {withLearner, lost("learner:9 dc2-1"), nil, "remove dc2-1, remove learner:9", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, test.state, "dc1", "dc2", "dc3")
			p.says("dc1", test.dc1)
			p.says("dc2", test.dc2)
			r := p.next("dc1", test.state)
			p.must(r.remove(t.Context()))
			if got := p.told(); got != test.told {
				t.Errorf("%s, not %s", got, test.told)
			}
			if r.waiting != test.waits {
				t.Errorf("it waits for %q, not for %q", r.waiting, test.waits)
			}
		})
	}
}

// What votes by now is not removed because it was once a learner.
func TestRemoveNoVoter(t *testing.T) {
	t.Parallel()
	state := agreed(member(1, "dc1-1"), member(9, "dc2-2"), member(3, "dc3-1"))
	p := setting(t, state, "dc1")
	p.says("dc1", wants(coordination.PendingForRemoval, "learner:9"))
	p.acts("dc1", coordination.Removal, coordination.Step{Do: plan.Remove, Member: "learner:9"})
	r := p.next("dc1", state)
	p.must(r.exclude(t.Context()))
	if made := r.system.(*fakeSystem).made; len(made) > 0 || p.told() != "done" {
		t.Errorf("%v, and %s", made, p.told())
	}
}

func TestRemoveDoes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		then func(p *play)
		told string
	}{
		"it is not stopped yet": {func(*play) {}, "stop dc2-1"},
		"it is stopped":         {func(p *play) { p.answers("dc2", "dc2-1", "") }, "done"},
		"it cannot be stopped":  {func(p *play) { p.answers("dc2", "dc2-1", "it hangs") }, "given up: stop of dc2-1: it hangs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, three(), "dc1", "dc2", "dc3")
			p.says("dc2", goes("dc2-1"))
			p.acts("dc1", coordination.Exclusion, order(plan.Stop, "dc2-1"))
			test.then(p)
			r := p.next("dc1", three())
			p.must(r.remove(t.Context()))
			if got := p.told(); got != test.told {
				t.Errorf("%s, not %s", got, test.told)
			}
		})
	}
}
