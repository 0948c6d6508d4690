//go:build faults

package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// Operators are killed at every step of what they do, before it and after it, and new processes take their place. All is
// done nevertheless, and nothing twice.
func TestCrashes(t *testing.T) {
	w := begin(t, faulty())
	play(t, w, []act{
		{"who acts, at each step of a restart", (*scene).crashesInRestart},
		{"who acts, at each step of a replacement", (*scene).crashesInReplacement},
		{"who obeys, at each order of a restart", (*scene).obeyingInRestart},
		{"who obeys, at each order of a replacement", (*scene).obeyingInReplacement},
	})
	w.checkHistory()
}

// moments are those at which something was killed, by what was to be done.
type moments map[string]bool

// note notes a moment, if it was met.
func (m moments) note(moment string, met bool) {
	if met {
		m[moment] = true
	}
}

// attempts are how often a plan is disturbed until every moment was met. A process may be faster than its murderer.
const attempts = 4

// throughout makes a change, disturbs what comes of it, and does so again until all moments were met.
func (s *scene) throughout(wanted []string, change func(), disturb func(moments)) {
	s.t.Helper()
	met, missing := moments{}, wanted
	for attempt := 0; attempt < attempts && len(missing) > 0; attempt++ {
		change()
		disturb(met)
		s.settled()
		missing = slices.DeleteFunc(slices.Clone(wanted), func(moment string) bool { return met[moment] })
		s.t.Logf("moments that were not met yet: %q", missing)
	}
	s.Expect(missing).To(BeEmpty(), "nobody was killed at these moments")
}

func both(steps ...string) []string {
	var all []string
	for _, step := range steps {
		all = append(all, "before "+step, "after "+step)
	}
	return all
}

func (s *scene) crashesInRestart() {
	before := map[string]int{}
	s.throughout(both(plan.Restart, plan.MoveLeader),
		func() { before = s.disturbed(); s.change() },
		func(met moments) {
			s.killWhoActs(met)
			s.settled()
			s.Expect(s.since(before)).To(Equal(once(s.names()...)))
		})
}

func (s *scene) crashesInReplacement() {
	var old string
	var before []string
	s.throughout(both(plan.AddLearner, plan.Start, plan.Promote, plan.MoveLeader, plan.Remove, plan.Stop),
		func() {
			before = s.names()
			old = s.leader()
			s.owner(coordination.MemberID(old)).replace()
		},
		func(met moments) {
			s.killWhoActs(met)
			s.settled()
			s.Expect(s.names()).To(HaveLen(len(before)))
			s.Expect(s.names()).NotTo(ContainElement(old))
		})
}

// killWhoActs kills the operator that acts before and after each step, until all is done.
func (s *scene) killWhoActs(met moments) {
	s.t.Helper()
	id := s.until(held).Intent.ID
	over := func(v *view) bool { return v.Intent == nil || v.Intent.ID != id }
	var token int64
	for at := 0; ; at++ {
		var seen *view
		before, left := s.killHolder(
			func(v *view) bool {
				seen = v
				return over(v) || held(v) && v.Intent.StepIndex >= at && v.Intent.Token > token
			},
			// One that was killed before a step finds it done when another one goes on: then it is not killed after it.
			func(v *view) bool { return over(v) || present(v) == nil || met["before "+present(v).Do] })
		if over(seen) {
			return
		}
		at = seen.Intent.StepIndex
		step := present(seen)
		if step == nil { // all is done, and that is not yet written down
			continue
		}
		if before != nil {
			token = before.Intent.Token
			met.note("before "+step.Do, stillAt(before, left) && !s.took(step, left))
		}
		next := func(v *view) bool { return over(v) || v.Intent.StepIndex > at }
		after, left := s.killHolder(func(v *view) bool {
			if !next(v) && held(v) && v.Intent.Token > token && !answered(v) && s.ordersAnother(v) && v.Accepted(step.Member()) {
				_ = s.of(v.Lock.Holder).operator.Pause() // or else it may be faster when it sees the answer
			}
			return next(v) || held(v) && v.Intent.Token > token && s.took(step, v)
		}, next)
		for _, r := range s.regions { // one whose session ended before the answer came
			_ = r.operator.Resume() // the others did not stop
		}
		if after == nil {
			continue // it was faster
		}
		token = after.Intent.Token
		met.note("after "+step.Do, stillAt(after, left))
	}
}

// killHolder kills who acts at a moment, and starts another process of it, unless it is too late. It returns what was seen
// at the moment, and what the operator has left.
func (s *scene) killHolder(at, late func(*view) bool) (seen, left *view) {
	s.t.Helper()
	v := s.wait(s.when(at, func(v *view) {
		if !late(v) {
			_ = s.of(v.Lock.Holder).operator.Kill() // it is looked at below
		}
	}))
	if late(v) {
		return nil, nil
	}
	r := s.of(v.Lock.Holder)
	s.Expect(r.operator.Running()).To(BeFalse())
	left = s.look()
	s.t.Logf("killed %s with token %d at step %d: %s", v.Lock.Holder, v.Intent.Token, v.Intent.StepIndex, words(present(v)))
	r.again()
	return v, left
}

// stillAt tells whether what was seen when an operator was killed is the last that it has done.
func stillAt(seen, left *view) bool {
	return left.Intent != nil && left.Intent.ID == seen.Intent.ID && left.Intent.StepIndex == seen.Intent.StepIndex
}

func words(step *coordination.Step) string {
	if step == nil {
		return "all is done"
	}
	return fmt.Sprintf("%s %s", step.Do, step.Member())
}

// took tells whether a step has had its effect.
func (s *scene) took(step *coordination.Step, v *view) bool {
	if step.Order {
		return answered(v)
	}
	state := s.seen()
	if state == nil {
		return false
	}
	m, known := state.Known(string(step.Member()), step.With["peer"])
	switch step.Do {
	case plan.AddLearner:
		return known
	case plan.Promote:
		return known && !m.Learner
	case plan.MoveLeader:
		return known && state.Leader == m.ID
	case plan.Remove:
		return !known
	}
	return false
}

// obeyingInRestart kills operators that are ordered to restart their members.
func (s *scene) obeyingInRestart() {
	before, were := map[string]int{}, map[string]int{}
	s.throughout(both(plan.Restart),
		func() { before, were = s.disturbed(), s.processes(); s.change() },
		func(met moments) {
			s.killWhoObeys(met, were)
			s.settled()
			s.Expect(s.since(before)).To(Equal(once(s.names()...)))
		})
}

// obeyingInReplacement kills operators that are ordered to start and to stop members.
func (s *scene) obeyingInReplacement() {
	var before []string
	were := map[string]int{}
	s.throughout(both(plan.Start, plan.Stop),
		func() {
			before, were = s.names(), s.processes()
			for _, r := range s.regions[:2] { // one of them does not act
				r.replace()
			}
		},
		func(met moments) {
			s.killWhoObeys(met, were)
			s.settled()
			after := s.names()
			s.Expect(after).To(HaveLen(len(before)))
			for _, id := range before {
				if s.owner(coordination.MemberID(id)) != s.regions[2] {
					s.Expect(after).NotTo(ContainElement(id))
				}
			}
		})
}

// processes are those of all members, as their agents say.
func (s *scene) processes() map[string]int {
	s.t.Helper()
	pids := map[string]int{}
	for _, r := range s.regions {
		for _, m := range r.members() {
			pids[m.ID] = m.PID
		}
	}
	return pids
}

// killWhoObeys kills the operator that gets an order when it gets it, and again when its agent has carried it out and it
// has not yet said so. It is told which processes there were before the plan.
func (s *scene) killWhoObeys(met moments, were map[string]int) {
	s.t.Helper()
	id := s.until(held).Intent.ID
	for at := 0; ; at++ {
		over := func(v *view) bool { return v.Intent == nil || v.Intent.ID != id }
		var owner *region
		v := s.wait(s.when(
			func(v *view) bool { return over(v) || v.Intent.StepIndex >= at && s.ordersAnother(v) },
			func(v *view) {
				if !over(v) {
					owner = s.owner(present(v).Member())
					_ = owner.operator.Kill() // it is looked at below
				}
			}))
		if over(v) {
			return
		}
		s.Expect(owner.operator.Running()).To(BeFalse())
		at = v.Intent.StepIndex
		step := present(v)
		told := owner.told(v)
		met.note("before "+step.Do, !told && !answered(s.look()))
		s.t.Logf("killed %s when it was ordered to %s; it had told its agent: %t", owner.operator.Name(), words(step), told)
		owner.again()
		met.note("after "+step.Do, s.killDeaf(owner, v, were[string(step.Member())]))
	}
}

// ordersAnother tells whether who acts orders somebody else to do something.
func (s *scene) ordersAnother(v *view) bool {
	step := present(v)
	return held(v) && step != nil && step.Order && !answered(v) && s.owner(step.Member()) != s.of(v.Lock.Holder)
}

// told tells whether the agent of a region has been told what is to be done.
func (r *region) told(v *view) bool {
	r.w.t.Helper()
	step := present(v)
	return slices.ContainsFunc(r.orders(), func(o order) bool {
		return o.Member == string(step.Member()) && o.Order == fmt.Sprintf("%s/%d/%d/%s", clusterName, v.Intent.ID, v.Intent.StepIndex, step.Do)
	})
}

// killDeaf pauses an operator while its agent carries out an order, so that it does not hear of it, and kills it then. It
// tells whether that came before the answer. The member had another process before, or none.
func (s *scene) killDeaf(r *region, v *view, was int) bool {
	s.t.Helper()
	step := present(v)
	// The agent says so before it begins.
	s.Eventually(func() bool { return r.told(v) }).WithPolling(time.Millisecond).Should(BeTrue())
	s.Expect(r.operator.Pause()).To(Succeed())
	s.Eventually(func() bool { // it has been carried out
		m := r.member(step.Member())
		return step.Do == plan.Stop && m.ID == "" || step.Do != plan.Stop && m.PID != 0 && m.PID != was
	}).WithPolling(10 * time.Millisecond).Should(BeTrue())
	s.Expect(r.operator.Kill()).To(Succeed())
	now := s.look()
	deaf := stillAt(v, now) && !answered(now)
	s.t.Logf("killed %s after its agent could %s; before the answer: %t", r.operator.Name(), words(step), deaf)
	r.again()
	return deaf
}
