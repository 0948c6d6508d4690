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

// Operators are killed before and after every step, and new processes take their place. Everything is done
// nevertheless, and nothing twice.
func TestOperatorCrashes(t *testing.T) {
	w := start(t, faultOptions())
	runFaults(t, w, []faultCase{
		{"the holder, at each step of a restart", (*faultTest).holderCrashesInRestart},
		{"the holder, at each step of a replacement", (*faultTest).holderCrashesInReplacement},
		{"the executor, at each order of a restart", (*faultTest).executorCrashesInRestart},
		{"the executor, at each order of a replacement", (*faultTest).executorCrashesInReplacement},
	})
	w.checkHistory()
}

// killPoints are the points at which an operator was killed.
type killPoints map[string]bool

// record records a point, if it was reached.
func (m killPoints) record(moment string, met bool) {
	if met {
		m[moment] = true
	}
}

// maxAttempts is how often a plan is disturbed until all points were reached. A process may be faster than the
// test.
const maxAttempts = 4

// coverKillPoints makes a change and disturbs the plan, repeatedly until all points were reached.
func (s *faultTest) coverKillPoints(wanted []string, change func(), disturb func(killPoints)) {
	s.t.Helper()
	met, missing := killPoints{}, wanted
	for attempt := 0; attempt < maxAttempts && len(missing) > 0; attempt++ {
		change()
		disturb(met)
		s.awaitSettled()
		missing = slices.DeleteFunc(slices.Clone(wanted), func(moment string) bool { return met[moment] })
		s.t.Logf("points that were not reached yet: %q", missing)
	}
	s.Expect(missing).To(BeEmpty(), "no operator was killed at these points")
}

func beforeAndAfter(steps ...string) []string {
	var all []string
	for _, step := range steps {
		all = append(all, "before "+step, "after "+step)
	}
	return all
}

func (s *faultTest) holderCrashesInRestart() {
	before := map[string]int{}
	s.coverKillPoints(beforeAndAfter(plan.Restart, plan.MoveLeader),
		func() { before = s.restartCounts(); s.changeArgs() },
		func(met killPoints) {
			s.killHolderAtEachStep(met)
			s.awaitSettled()
			s.Expect(s.restartsSince(before)).To(Equal(onceEach(s.voterNames()...)))
		})
}

func (s *faultTest) holderCrashesInReplacement() {
	var old string
	var before []string
	s.coverKillPoints(beforeAndAfter(plan.AddLearner, plan.Start, plan.Promote, plan.MoveLeader, plan.Remove, plan.Stop),
		func() {
			before = s.voterNames()
			old = s.leaderName()
			s.memberRegion(coordination.MemberID(old)).replaceMembers()
		},
		func(met killPoints) {
			s.killHolderAtEachStep(met)
			s.awaitSettled()
			s.Expect(s.voterNames()).To(HaveLen(len(before)))
			s.Expect(s.voterNames()).NotTo(ContainElement(old))
		})
}

// killHolderAtEachStep kills the holder of the lock before and after each step, until the plan is done.
func (s *faultTest) killHolderAtEachStep(met killPoints) {
	s.t.Helper()
	id := s.awaitView(isHeld).Intent.ID
	ended := func(v *view) bool { return v.Intent == nil || v.Intent.ID != id }
	var token int64
	for stepIndex := 0; ; stepIndex++ {
		var latest *view
		before, left := s.killHolder(
			func(v *view) bool {
				latest = v
				return ended(v) || isHeld(v) && v.Intent.StepIndex >= stepIndex && v.Intent.Token > token
			},
			// After a kill before a step, the next holder may find the step done: then it is not killed after it.
			func(v *view) bool { return ended(v) || currentStep(v) == nil || met["before "+currentStep(v).Do] })
		if ended(latest) {
			return
		}
		stepIndex = latest.Intent.StepIndex
		step := currentStep(latest)
		if step == nil { // all steps are done, and the intent is not removed yet
			continue
		}
		if before != nil {
			token = before.Intent.Token
			met.record("before "+step.Do, isSameStep(before, left) && !s.hasEffect(step, left))
		}
		next := func(v *view) bool { return ended(v) || v.Intent.StepIndex > stepIndex }
		after, left := s.killHolder(func(v *view) bool {
			if !next(v) && isHeld(v) && v.Intent.Token > token && !isAnswered(v) && s.isOrderToOther(v) && v.Accepted(step.Member()) {
				_ = s.operatorRegion(v.Lock.Holder).operator.Pause() // otherwise it may be faster when it reads the answer
			}
			return next(v) || isHeld(v) && v.Intent.Token > token && s.hasEffect(step, v)
		}, next)
		for _, r := range s.regions { // one whose session ended before the answer came
			_ = r.operator.Resume() // the others were not paused
		}
		if after == nil {
			continue // the process was faster
		}
		token = after.Intent.Token
		met.record("after "+step.Do, isSameStep(after, left))
	}
}

// killHolder kills the holder of the lock when a view matches, and starts another process of it, unless it is
// too late. It returns the matching view, and the view after the kill.
func (s *faultTest) killHolder(at, late func(*view) bool) (before, left *view) {
	s.t.Helper()
	v := s.await(s.onView(at, func(v *view) {
		if !late(v) {
			_ = s.operatorRegion(v.Lock.Holder).operator.Kill() // checked below
		}
	}))
	if late(v) {
		return nil, nil
	}
	r := s.operatorRegion(v.Lock.Holder)
	s.Expect(r.operator.Running()).To(BeFalse())
	left = s.readView()
	s.t.Logf("killed %s with token %d at step %d: %s", v.Lock.Holder, v.Intent.Token, v.Intent.StepIndex, describeStep(currentStep(v)))
	r.restartOperator()
	return v, left
}

// isSameStep reports whether nothing was written between the matching view and the kill.
func isSameStep(before, left *view) bool {
	return left.Intent != nil && left.Intent.ID == before.Intent.ID && left.Intent.StepIndex == before.Intent.StepIndex
}

func describeStep(step *coordination.Step) string {
	if step == nil {
		return "all steps are done"
	}
	return fmt.Sprintf("%s %s", step.Do, step.Member())
}

// hasEffect reports whether a step has had its effect.
func (s *faultTest) hasEffect(step *coordination.Step, v *view) bool {
	if step.Order {
		return isAnswered(v)
	}
	state := s.trySystemState()
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

// executorCrashesInRestart kills operators that have an order to restart their members.
func (s *faultTest) executorCrashesInRestart() {
	before, were := map[string]int{}, map[string]int{}
	s.coverKillPoints(beforeAndAfter(plan.Restart),
		func() { before, were = s.restartCounts(), s.agentPIDs(); s.changeArgs() },
		func(met killPoints) {
			s.killExecutorAtEachOrder(met, were)
			s.awaitSettled()
			s.Expect(s.restartsSince(before)).To(Equal(onceEach(s.voterNames()...)))
		})
}

// executorCrashesInReplacement kills operators that have an order to start or stop members.
func (s *faultTest) executorCrashesInReplacement() {
	var before []string
	were := map[string]int{}
	s.coverKillPoints(beforeAndAfter(plan.Start, plan.Stop),
		func() {
			before, were = s.voterNames(), s.agentPIDs()
			for _, r := range s.regions[:2] { // one of them is not the holder
				r.replaceMembers()
			}
		},
		func(met killPoints) {
			s.killExecutorAtEachOrder(met, were)
			s.awaitSettled()
			after := s.voterNames()
			s.Expect(after).To(HaveLen(len(before)))
			for _, id := range before {
				if s.memberRegion(coordination.MemberID(id)) != s.regions[2] {
					s.Expect(after).NotTo(ContainElement(id))
				}
			}
		})
}

// agentPIDs returns the process IDs of all members from their agents.
func (s *faultTest) agentPIDs() map[string]int {
	s.t.Helper()
	pids := map[string]int{}
	for _, r := range s.regions {
		for _, m := range r.members() {
			pids[m.ID] = m.PID
		}
	}
	return pids
}

// killExecutorAtEachOrder kills the operator that gets an order, first when it gets the order, and then when its
// agent has carried it out and the operator has not answered. It is given the processes before the plan.
func (s *faultTest) killExecutorAtEachOrder(met killPoints, were map[string]int) {
	s.t.Helper()
	id := s.awaitView(isHeld).Intent.ID
	for stepIndex := 0; ; stepIndex++ {
		ended := func(v *view) bool { return v.Intent == nil || v.Intent.ID != id }
		var owner *region
		v := s.await(s.onView(
			func(v *view) bool { return ended(v) || v.Intent.StepIndex >= stepIndex && s.isOrderToOther(v) },
			func(v *view) {
				if !ended(v) {
					owner = s.memberRegion(currentStep(v).Member())
					_ = owner.operator.Kill() // checked below
				}
			}))
		if ended(v) {
			return
		}
		s.Expect(owner.operator.Running()).To(BeFalse())
		stepIndex = v.Intent.StepIndex
		step := currentStep(v)
		hasOrder := owner.agentHasOrder(v)
		met.record("before "+step.Do, !hasOrder && !isAnswered(s.readView()))
		s.t.Logf("killed %s when it was ordered to %s; it had told its agent: %t", owner.operator.Name(), describeStep(step), hasOrder)
		owner.restartOperator()
		met.record("after "+step.Do, s.killBeforeAnswer(owner, v, were[string(step.Member())]))
	}
}

// isOrderToOther reports whether the current step is an order to another operator than the holder.
func (s *faultTest) isOrderToOther(v *view) bool {
	step := currentStep(v)
	return isHeld(v) && step != nil && step.Order && !isAnswered(v) && s.memberRegion(step.Member()) != s.operatorRegion(v.Lock.Holder)
}

// agentHasOrder reports whether the agent of a region has received the current order.
func (r *region) agentHasOrder(v *view) bool {
	r.f.t.Helper()
	step := currentStep(v)
	return slices.ContainsFunc(r.orders(), func(o order) bool {
		return o.Member == string(step.Member()) && o.Order == fmt.Sprintf("%s/%d/%d/%s", clusterName, v.Intent.ID, v.Intent.StepIndex, step.Do)
	})
}

// killBeforeAnswer pauses an operator while its agent carries out an order, and then kills it. It reports
// whether that was before the answer. Was is the former process of the member, or 0.
func (s *faultTest) killBeforeAnswer(r *region, v *view, was int) bool {
	s.t.Helper()
	step := currentStep(v)
	// The agent logs the order before it begins.
	s.Eventually(func() bool { return r.agentHasOrder(v) }).WithPolling(time.Millisecond).Should(BeTrue())
	s.Expect(r.operator.Pause()).To(Succeed())
	s.Eventually(func() bool { // it has been carried out
		m := r.member(step.Member())
		return step.Do == plan.Stop && m.ID == "" || step.Do != plan.Stop && m.PID != 0 && m.PID != was
	}).WithPolling(10 * time.Millisecond).Should(BeTrue())
	s.Expect(r.operator.Kill()).To(Succeed())
	now := s.readView()
	deaf := isSameStep(v, now) && !isAnswered(now)
	s.t.Logf("killed %s after its agent could %s; before the answer: %t", r.operator.Name(), describeStep(step), deaf)
	r.restartOperator()
	return deaf
}
