package coordination_test

import (
	"context"
	"slices"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

const upgrade coordination.Action = "Upgrade"

// fakeSystem is a System that restarts its members one after the other.
type fakeSystem struct {
	needs coordination.Needs
	// execute and healthy answer for the methods if they are set.
	execute func(task coordination.Task) error
	healthy error
	notYet  error // of Plan, with its steps
	// replan answers for the method of replanning.
	replan func(intent *coordination.Intent) ([]coordination.Step, error)
	plan   func(proposal coordination.Proposal) []coordination.Step
	done   []string
}

func (o *fakeSystem) Needs(context.Context, *coordination.View) (coordination.Needs, error) {
	return o.needs, nil
}

func (o *fakeSystem) Plan(_ context.Context, proposal coordination.Proposal) (steps []coordination.Step, err error) {
	if o.plan != nil {
		return o.plan(proposal), o.notYet
	}
	for _, id := range proposal.IDs() {
		steps = append(steps, coordination.Step{Do: "restart", Members: only(id), Order: true})
	}
	return steps, nil
}

func (o *fakeSystem) Execute(_ context.Context, task coordination.Task) error {
	if o.execute != nil {
		if err := o.execute(task); err != nil {
			return err
		}
	}
	for _, id := range task.Members {
		o.done = append(o.done, string(id))
		o.needs.Pending = slices.DeleteFunc(o.needs.Pending, func(n coordination.Need) bool { return n.Member == id })
	}
	return nil
}

func (o *fakeSystem) Healthy(context.Context, coordination.Step) error { return o.healthy }

// fencingSystem is a System that can refuse what comes late.
type fencingSystem struct {
	*fakeSystem
	fenced map[coordination.MemberID]int64
}

func (f *fencingSystem) Fence(_ context.Context, members []coordination.MemberID, token int64) error {
	for _, id := range members {
		f.fenced[id] = token
	}
	return nil
}

// replanningSystem is a System that plans again after each step.
type replanningSystem struct{ *fakeSystem }

func (r replanningSystem) Replan(_ context.Context, intent *coordination.Intent) ([]coordination.Step, error) {
	return r.replan(intent)
}

// participant is a process with its settings and its system.
type participant struct {
	*coordination.Coordinator
	*fakeSystem
	system     coordination.System
	settings   coordination.Settings
	f          *fixture
	lastResult *coordination.Result
}

// join adds a participant whose members need an action and are ready for it.
func (w *fixture) join(prefix string, action coordination.Action, members ...coordination.MemberID) *participant {
	w.t.Helper()
	o := &fakeSystem{needs: coordination.Needs{Members: members}}
	for _, id := range members {
		o.needs.Pending = append(o.needs.Pending, coordination.Need{Action: action, Member: id, Ready: true})
	}
	p := &participant{fakeSystem: o, system: o, settings: global(prefix), f: w}
	p.Coordinator = w.process(prefix)
	return p
}

func (w *fixture) process(prefix string) *coordination.Coordinator {
	w.t.Helper()
	c, err := coordination.New(coordination.Options{
		Store: w.Store, System: system, Name: prefix + "-operator", Clock: w.clock, SessionDuration: duration,
		Actions: []coordination.Action{upgrade, coordination.Restart},
	})
	w.Expect(err).NotTo(HaveOccurred())
	return c
}

// reconcile is one call, which must not fail.
func (p *participant) reconcile() *coordination.Result {
	p.f.t.Helper()
	result, err := p.Reconcile(p.f.t.Context(), p.settings, p.system)
	p.f.Expect(err).NotTo(HaveOccurred())
	p.lastResult = result
	return result
}

// reconcileRounds reconciles all in turn, as often as a plan takes.
func reconcileRounds(all ...*participant) {
	const enough = 12
	for range enough {
		for _, p := range all {
			p.f.t.Helper()
			p.reconcile()
		}
	}
}

func (w *fixture) lastDone() coordination.DoneRecord {
	w.t.Helper()
	view := w.view()
	w.Expect(view.DoneRecords).NotTo(BeEmpty())
	w.Expect(view.Lock).To(BeNil())
	w.Expect(view.Intent).To(BeNil())
	return view.DoneRecords[0]
}
