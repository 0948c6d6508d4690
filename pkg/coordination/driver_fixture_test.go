package coordination_test

import (
	"context"
	"slices"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

const upgrade coordination.Action = "Upgrade"

// operator is a System that restarts its members one after the other.
type operator struct {
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

func (o *operator) Needs(context.Context, *coordination.View) (coordination.Needs, error) {
	return o.needs, nil
}

func (o *operator) Plan(_ context.Context, proposal coordination.Proposal) (steps []coordination.Step, err error) {
	if o.plan != nil {
		return o.plan(proposal), o.notYet
	}
	for _, id := range proposal.IDs() {
		steps = append(steps, coordination.Step{Do: "restart", Members: only(id), Order: true})
	}
	return steps, nil
}

func (o *operator) Execute(_ context.Context, task coordination.Task) error {
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

func (o *operator) Healthy(context.Context, coordination.Step) error { return o.healthy }

// fencing is a System that can refuse what comes late.
type fencing struct {
	*operator
	fenced map[coordination.MemberID]int64
}

func (f *fencing) Fence(_ context.Context, members []coordination.MemberID, token int64) error {
	for _, id := range members {
		f.fenced[id] = token
	}
	return nil
}

// replanning is a System that plans again after each step.
type replanning struct{ *operator }

func (r replanning) Replan(_ context.Context, intent *coordination.Intent) ([]coordination.Step, error) {
	return r.replan(intent)
}

// participant is a process with its settings and its system.
type participant struct {
	*coordination.Coordinator
	*operator
	system   coordination.System
	settings coordination.Settings
	w        *world
	last     *coordination.Result
}

// joins adds a participant whose members need an action and are ready for it.
func (w *world) joins(prefix string, action coordination.Action, members ...coordination.MemberID) *participant {
	w.t.Helper()
	o := &operator{needs: coordination.Needs{Members: members}}
	for _, id := range members {
		o.needs.Pending = append(o.needs.Pending, coordination.Need{Action: action, Member: id, Ready: true})
	}
	p := &participant{operator: o, system: o, settings: global(prefix), w: w}
	p.Coordinator = w.process(prefix)
	return p
}

func (w *world) process(prefix string) *coordination.Coordinator {
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
	p.w.t.Helper()
	result, err := p.Reconcile(p.w.t.Context(), p.settings, p.system)
	p.w.Expect(err).NotTo(HaveOccurred())
	p.last = result
	return result
}

// rounds reconciles all in turn, as often as a plan takes.
func rounds(all ...*participant) {
	const enough = 12
	for range enough {
		for _, p := range all {
			p.w.t.Helper()
			p.reconcile()
		}
	}
}

func (w *world) lastDone() coordination.DoneRecord {
	w.t.Helper()
	view := w.view()
	w.Expect(view.DoneRecords).NotTo(BeEmpty())
	w.Expect(view.Lock).To(BeNil())
	w.Expect(view.Intent).To(BeNil())
	return view.DoneRecords[0]
}
