//go:build faults

package main

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// Operators are killed at every step of what they do, before it and after it, and new processes take their place. All is
// done nevertheless, and nothing twice.
func TestCrashes(t *testing.T) { //nolint:tparallel // one act follows the other
	t.Parallel()
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

// attempts are how often a plan is disturbed until every moment was met. A process may be faster than its murderer.
const attempts = 4

// throughout makes a change, disturbs what comes of it, and does so again until all moments were met.
func (s *scene) throughout(wanted []string, change func(), disturb func(moments)) {
	s.t.Helper()
	met := moments{}
	for range attempts {
		change()
		disturb(met)
		s.settled()
		missing := false
		for _, moment := range wanted {
			missing = missing || !met[moment]
		}
		if !missing {
			return
		}
	}
	s.Expect(met).To(HaveLen(len(wanted)), "of %v", wanted)
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
		before := s.killHolder(func(v *view) bool {
			return over(v) || held(v) && v.Intent.At >= at && v.Intent.Token > token
		}, over)
		if before == nil {
			return
		}
		at, token = before.Intent.At, before.Intent.Token
		step := present(before)
		if step == nil { // all is done, and that is not yet written down
			continue
		}
		met["before "+step.Do] = met["before "+step.Do] || s.stillAt(before)
		next := func(v *view) bool { return over(v) || v.Intent.At > at }
		after := s.killHolder(func(v *view) bool {
			return next(v) || held(v) && v.Intent.Token > token && s.took(step, v)
		}, next)
		if after == nil {
			continue // it was faster
		}
		token = after.Intent.Token
		met["after "+step.Do] = met["after "+step.Do] || s.stillAt(after)
	}
}

// killHolder kills who acts at a moment, and starts another process of it, unless it is too late.
func (s *scene) killHolder(at, late func(*view) bool) *view {
	s.t.Helper()
	v := s.wait(s.when(at, func(v *view) {
		if !late(v) {
			_ = s.of(v.Lock.Holder).operator.Kill() // it is looked at below
		}
	}))
	if late(v) {
		return nil
	}
	r := s.of(v.Lock.Holder)
	s.Expect(r.operator.Running()).To(BeFalse())
	s.t.Logf("killed %s with token %d at step %d: %s", v.Lock.Holder, v.Intent.Token, v.Intent.At, words(present(v)))
	defer r.again()
	return v
}

// stillAt tells whether what was seen when an operator was killed is the last that it has done.
func (s *scene) stillAt(v *view) bool {
	s.t.Helper()
	now := s.look()
	return now.Intent != nil && now.Intent.ID == v.Intent.ID && now.Intent.At == v.Intent.At
}

func words(step *coordination.Step) string {
	if step == nil {
		return "all is done"
	}
	return fmt.Sprintf("%s %s", step.Do, step.Member)
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
	m, known := state.Named(string(step.Member))
	if !known {
		m, known = state.At(step.With["peer"])
	}
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
	before := map[string]int{}
	s.throughout(both(plan.Restart),
		func() { before = s.disturbed(); s.change() },
		func(met moments) {
			s.killWhoObeys(met)
			s.settled()
			s.Expect(s.since(before)).To(Equal(once(s.names()...)))
		})
}

// obeyingInReplacement kills operators that are ordered to start and to stop members.
func (s *scene) obeyingInReplacement() {
	s.throughout(both(plan.Start, plan.Stop),
		func() {
			for _, r := range s.regions[:2] { // one of them does not act
				r.replace()
			}
		},
		func(met moments) {
			before := s.names()
			s.killWhoObeys(met)
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

// killWhoObeys kills the operator that gets an order when it gets it, and again when its agent has carried it out and it
// has not yet said so.
func (s *scene) killWhoObeys(met moments) {
	s.t.Helper()
	id := s.until(held).Intent.ID
	for at := 0; ; at++ {
		over := func(v *view) bool { return v.Intent == nil || v.Intent.ID != id }
		var owner *region
		v := s.wait(s.when(
			func(v *view) bool { return over(v) || v.Intent.At >= at && s.ordersAnother(v) },
			func(v *view) {
				if !over(v) {
					owner = s.owner(present(v).Member)
					_ = owner.operator.Kill() // it is looked at below
				}
			}))
		if over(v) {
			return
		}
		s.Expect(owner.operator.Running()).To(BeFalse())
		at = v.Intent.At
		step := present(v)
		met["before "+step.Do] = met["before "+step.Do] || !answered(s.look())
		s.t.Logf("killed %s when it was ordered to %s", owner.operator.Name(), words(step))
		owner.again()
		if s.killDeaf(owner, v) {
			met["after "+step.Do] = true
		}
	}
}

// ordersAnother tells whether who acts orders somebody else to do something.
func (s *scene) ordersAnother(v *view) bool {
	step := present(v)
	return held(v) && step != nil && step.Order && !answered(v) && s.owner(step.Member) != s.of(v.Lock.Holder)
}

// killDeaf pauses an operator while its agent carries out an order, so that it does not hear of it, and kills it then. It
// tells whether that came before the answer.
func (s *scene) killDeaf(r *region, v *view) bool {
	s.t.Helper()
	step := present(v)
	was, orders := r.member(step.Member), len(r.orders())
	// The agent says so before it begins.
	s.Eventually(func() int { return len(r.orders()) }).WithPolling(time.Millisecond).Should(BeNumerically(">", orders))
	s.Expect(r.operator.Pause()).To(Succeed())
	s.Eventually(func() bool { // it has been carried out
		m := r.member(step.Member)
		return step.Do == plan.Stop && m.ID == "" || step.Do != plan.Stop && m.PID != 0 && m.PID != was.PID
	}).WithPolling(10 * time.Millisecond).Should(BeTrue())
	s.Expect(r.operator.Kill()).To(Succeed())
	now := s.look()
	deaf := now.Intent != nil && now.Intent.ID == v.Intent.ID && now.Intent.At == v.Intent.At && !answered(now)
	s.t.Logf("killed %s after its agent could %s; before the answer: %t", r.operator.Name(), words(step), deaf)
	r.again()
	return deaf
}
