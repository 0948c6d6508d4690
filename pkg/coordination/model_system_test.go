package coordination

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// member is a member of the managed system.
type member struct {
	id           MemberID
	owner        int
	wanted       int // requested restarts, without withdrawn ones
	done         int
	task         string // ID of the last restart
	disturbed    bool
	seen         int64  // the newest token
	withdrawn    bool   // its need was withdrawn
	localProcess string // the process that began the last restart in local mode, or ""
}

func (m member) needs() bool { return m.wanted > m.done }

// modelSystem is the System of an adopter. It compares tokens, and carries out each task once. It does not check whether an ordered
// restart is needed, so that the model finds unneeded orders.
type modelSystem struct{ e *execution }

// Needs implements System.
func (s modelSystem) Needs(context.Context, *View) (Needs, error) {
	a := s.e.call("needs", false, func(a *recordedCall) {
		for _, m := range s.e.w.members {
			if m.owner != s.e.p.participant {
				continue
			}
			a.needs.Members = append(a.needs.Members, m.id)
			if m.needs() {
				a.needs.Pending = append(a.needs.Pending, Need{Action: s.e.w.scenario.action, Member: m.id, Ready: true})
				if beside := s.e.w.scenario.otherAction; beside != "" {
					a.needs.Pending = append(a.needs.Pending, Need{Action: beside, Member: m.id, Ready: true})
				}
			}
		}
		a.text = fmt.Sprint(a.needs)
	})
	return a.needs, nil
}

// Plan implements System.
func (s modelSystem) Plan(_ context.Context, proposal Proposal) ([]Step, error) {
	return s.e.w.scenario.plan(proposal.IDs()), nil
}

// Healthy implements System. It can run together with the call before: it is called when all orders are answered, and only accepted
// orders disturb a member.
func (s modelSystem) Healthy(_ context.Context, step Step) error {
	return s.e.call("healthy", false, func(a *recordedCall) {
		for _, m := range s.e.w.members {
			if m.disturbed && slices.Contains(step.Members, m.id) {
				a.err = NotYet("%s is being restarted", m.id)
			}
		}
	}).err
}

// Execute implements System.
func (s modelSystem) Execute(_ context.Context, task Task) error {
	return s.e.call(fmt.Sprintf("execute %s %s under %d", task.ID, task.Step, task.Token), true, func(a *recordedCall) {
		if s.e.fault == failingDatabase && !s.e.w.hasBegun(task) {
			a.err = Failed("it is broken")
			return
		}
		a.err = s.e.w.execute(s.e.p, task)
	}).err
}

// hasBegun reports whether a task has begun. A failed task has not.
func (w *modelState) hasBegun(task Task) bool {
	return slices.ContainsFunc(w.members, func(m member) bool { return slices.Contains(task.Members, m.id) && m.task == task.ID })
}

// execute restarts members.
func (w *modelState) execute(by *process, task Task) error {
	w.members = slices.Clone(w.members)
	for _, id := range task.Members {
		m := w.member(id)
		if task.Token < m.seen {
			return Fenced(m.seen)
		}
	}
	busy := false
	for _, id := range task.Members {
		m := w.member(id)
		m.seen = task.Token
		if m.task != task.ID && (m.withdrawn || w.isAbandoned(m)) && !m.needs() {
			m.task, m.localProcess = task.ID, "" // the adopter sees that nothing is to do
		}
		if m.task != task.ID {
			w.checkStart(by, m, task)
			m.task, m.disturbed, m.localProcess = task.ID, true, ""
			if w.scenario.settings(by).Mode != Global {
				m.localProcess = by.name
			}
		}
		busy = busy || m.disturbed
	}
	if busy {
		return NotYet("it is in progress")
	}
	return nil
}

// isAbandoned reports whether the last restart of a member was begun in local mode by a process that has died.
func (w *modelState) isAbandoned(m *member) bool {
	return m.localProcess != "" && !slices.ContainsFunc(w.processes, func(p *process) bool { return p.name == m.localProcess })
}

func (w *modelState) member(id MemberID) *member {
	i := slices.IndexFunc(w.members, func(m member) bool { return m.id == id })
	return &w.members[i]
}

// fencingSystem is a modelSystem with Fence.
type fencingSystem struct{ modelSystem }

// Fence implements Fencer.
func (s fencingSystem) Fence(_ context.Context, ids []MemberID, token int64) error {
	return s.e.call(fmt.Sprintf("fence %s under %d", joinMembers(ids), token), true, func(a *recordedCall) {
		w := s.e.w
		w.members = slices.Clone(w.members)
		for _, id := range ids {
			m := w.member(id)
			m.seen = max(m.seen, token)
			if m.disturbed {
				a.err = NotYet("%s is being restarted", id)
			}
		}
	}).err
}

// replanningSystem is a modelSystem whose Replan can change the order.
type replanningSystem struct{ modelSystem }

// Replan implements Replanner.
func (s replanningSystem) Replan(_ context.Context, intent *Intent) ([]Step, error) {
	a := s.e.call("replan", false, func(a *recordedCall) {
		a.steps = slices.Clone(intent.Steps[intent.StepIndex:])
		slices.SortFunc(a.steps, func(x, y Step) int { return strings.Compare(string(x.Member()), string(y.Member())) })
		if s.e.w.reversed {
			slices.Reverse(a.steps)
		}
		a.text = fmt.Sprint(a.steps)
	})
	return slices.Clone(a.steps), nil
}

// checkStart checks that a restart may begin.
func (w *modelState) checkStart(by *process, m *member, task Task) {
	if !m.needs() {
		w.reportViolation("%s is restarted without a need", m.id)
	}
	for _, other := range w.members {
		if other.disturbed && other.task != task.ID && !w.isAbandoned(&other) {
			w.reportViolation("%s is restarted while %s is, in different steps", m.id, other.id)
		}
	}
	view := w.view()
	if holds := view.Lock != nil && view.Lock.Session == by.session && view.Lock.Token == task.Token; holds && !view.IntentHeld() {
		return // in local mode
	}
	step := view.Intent.step()
	if step == nil || task.ID != fmt.Sprintf("%s/%d/%d", modelSystemName, view.Intent.ID, view.Intent.StepIndex) || !slices.Contains(step.Members, m.id) {
		w.reportViolation("%s is restarted after the order has ended", m.id)
		return
	}
	if step.Order && view.Answers[m.id].Session != by.session {
		w.reportViolation("%s is restarted by a process that has not accepted the order", m.id)
	}
	for _, id := range step.Members {
		if answer := view.Answers[id]; step.Together && (!answer.isFor(view.Intent) || answer.Done && answer.Failure != "") {
			w.reportViolation("%s is restarted together with %s, which has not accepted it", m.id, id)
		}
	}
}
