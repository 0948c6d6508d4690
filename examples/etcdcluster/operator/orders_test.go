package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// Nobody answers an order: because the region takes no part any more, is gone, or hangs.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	goesLocal := func(p *play) { p.must(p.rounds["dc2"].c.Configure(p.Context(), coordination.Settings{})) }
	dies := func(p *play) { p.must(p.rounds["dc2"].c.Close(p.Context())) }
	hangs := func(p *play) {
		goOnAfter(p.rounds["dc1"], time.Minute)
		p.rounds["dc1"].overdue(*p.rounds["dc1"].task.step())
		p.wait(time.Hour)
	}
	both := func(all ...func(*play)) func(*play) {
		return func(p *play) {
			for _, do := range all {
				do(p)
			}
		}
	}
	leaveOut := func(p *play) {
		p.rounds["dc1"].cluster.Spec.AutomationOptions.Missing = etcdclusterv1alpha1.MissingLeaveOut
	}
	lost := func(p *play) { p.rounds["dc1"].cluster.Spec.LostRegions = []etcdclusterv1alpha1.Prefix{"dc2"} }
	replacement := []coordination.Step{
		{Do: plan.AddLearner, Member: "dc2-2", With: map[string]string{withPeer: "http://dc2-2"}},
		order(plan.Start, "dc2-2"),
		{Do: plan.Promote, Member: "dc2-2"},
		{Do: plan.Remove, Member: "dc2-1"},
		order(plan.Stop, "dc2-1"),
	}
	restart := []coordination.Step{order(plan.Restart, "dc2-1"), order(plan.Restart, "dc3-1")}
	withLearner := agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"), learner(4, "dc2-2"))
	replaced := agreed(member(1, "dc1-1"), member(4, "dc2-2"), member(3, "dc3-1"))
	const gone = "the operator of dc2 is gone and cannot "
	for name, test := range map[string]struct {
		steps []coordination.Step
		at    int
		state *system.State
		then  func(*play)
		told  string
		waits string
		did   []string
	}{
		"restart of one that goes local":        {restart, 0, three(), goesLocal, "restart dc3-1", "", nil},
		"restart of one that died":              {restart, 0, three(), dies, "restart dc2-1, restart dc3-1", gone + "restart dc2-1", nil},
		"restart of one that died, left out":    {restart, 0, three(), both(dies, leaveOut), "restart dc3-1", "", nil},
		"restart of one that died, lost":        {restart, 0, three(), both(dies, lost), "restart dc3-1", "", nil},
		"restart of one that hangs":             {restart, 0, three(), hangs, "restart dc3-1", "", nil},
		"restart of the only one that is left":  {restart[:1], 0, three(), hangs, "given up: restart was not done to dc2-1 in time", "", nil},
		"start of one that goes local":          {replacement, 1, withLearner, goesLocal, "done", "", []string{"remove 4"}},
		"start of one that died":                {replacement, 1, withLearner, dies, brief(replacement[1:]), gone + "start dc2-2", nil},
		"start of one that died, left out":      {replacement, 1, withLearner, both(dies, leaveOut), "done", "", []string{"remove 4"}},
		"start of one that hangs":               {replacement, 1, withLearner, hangs, "done", "", []string{"remove 4"}},
		"stop of one that goes local":           {replacement, 4, replaced, goesLocal, "done", "", nil},
		"stop of one that died":                 {replacement, 4, replaced, dies, "stop dc2-1", gone + "stop dc2-1", nil},
		"stop of one that died and is lost":     {replacement, 4, replaced, both(dies, lost), "done", "", nil},
		"stop of one that died and is left out": {replacement, 4, replaced, both(dies, leaveOut), "done", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, three(), "dc1", "dc2", "dc3")
			p.says("dc2", wants(coordination.PendingForRestart, "dc2-1", coordination.ReadyForRestart, "dc2-1",
				coordination.PendingForExclusion, "dc2-1", coordination.ReadyForExclusion, "dc2-1",
				coordination.PendingForInclusion, "dc2-2", coordination.ReadyForInclusion, "dc2-2"))
			p.says("dc3", restarts("dc3-1"))
			p.must(p.rounds["dc1"].look(t.Context()))
			steps := append([]coordination.Step{}, test.steps...)
			for i := range steps {
				p.rounds["dc1"].address(&steps[i])
			}
			action := coordination.Restart
			if steps[0].Do == plan.AddLearner {
				action = coordination.Exclusion
			}
			p.acts("dc1", action, steps...)
			for at := range test.at {
				p.must(p.rounds["dc1"].task.advance(t.Context(), steps[at+1:]))
			}
			if test.at == 4 {
				p.says("dc2", nil) // the system does not know the old one any more
			}
			test.then(p)
			r := p.next("dc1", test.state)
			for _, part := range []func() error{
				func() error { return r.restart(t.Context()) }, func() error { return r.remove(t.Context()) }, func() error { return r.include(t.Context()) },
			} {
				p.must(part())
			}
			if got := p.told(); got != test.told {
				t.Errorf("%s, not %s", got, test.told)
			}
			if !strings.HasSuffix(r.waiting, test.waits) || (r.waiting == "") != (test.waits == "") {
				t.Errorf("it waits for %q, not for %q", r.waiting, test.waits)
			}
			if diff := cmp.Diff(test.did, r.system.(*fakeSystem).made); diff != "" {
				t.Error(diff)
			}
		})
	}
}
