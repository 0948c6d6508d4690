//go:build faults

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// Settings and needs change and operators hang before and during a plan, and the clocks of the operators differ.
// Every member is restarted once nevertheless.
func TestChangesDuringPlans(t *testing.T) {
	o := faultOptions()
	// Only the recorded times show the clock skew.
	o.prepare = func(r *region) {
		r.clockSkew = map[string]time.Duration{"dc1": -time.Hour, "dc2": time.Hour, "dc3": 2 * time.Hour}[r.prefix]
	}
	w := start(t, o)
	runFaults(t, w, []faultCase{
		{"a late need and a withdrawn need", (*faultTest).lateNeedAndWithdrawnNeed},
		{"a need is withdrawn during the plan", (*faultTest).needWithdrawnDuringPlan},
		{"the holder hangs", (*faultTest).holderHangs},
		{"the holder is denied", (*faultTest).holderIsDenied},
		{"prefixes change", (*faultTest).prefixesChange},
		{"an executor goes local", (*faultTest).executorGoesLocal},
		{"the holder goes local", (*faultTest).holderGoesLocal},
		{"a local operator crashes", (*faultTest).localOperatorCrashes},
	})
	w.checkHistory()
}

// lockLost is the reason of the event of an operator that has lost the lock.
const lockLost = "LockLost"

// duringPlan makes a change for which all members are restarted. It calls one function at the first step, and
// then another one that reports whether it ran before the plan ended. If not, it tries again.
func (s *faultTest) duringPlan(atFirstStep func(*view), then func(*view) bool) {
	s.t.Helper()
	for range maxAttempts {
		before := s.restartCounts()
		s.changeArgs()
		v := s.await(s.onView(isHeld, atFirstStep))
		in := then(v)
		s.awaitSettled()
		s.Expect(s.restartsSince(before)).To(Equal(onceEach(s.voterNames()...)))
		if in {
			return
		}
	}
	s.Expect(maxAttempts).To(BeZero(), "it was never during the plan")
}

func noop(*view) {}

// isInProgress reports whether the plan of a view is still in progress.
func (s *faultTest) isInProgress(v *view) bool {
	s.t.Helper()
	return !endedSince(v)(s.readView())
}

// endedSince returns a condition that the plan of a view has ended.
func endedSince(v *view) func(*view) bool {
	return func(now *view) bool { return now.Intent == nil || now.Intent.ID != v.Intent.ID }
}

// awaitTakeover waits until another operator continues the plan of a view. It returns nil if the plan ended
// before.
func (s *faultTest) awaitTakeover(v *view) *view {
	s.t.Helper()
	ended := endedSince(v)
	now := s.awaitView(func(now *view) bool { return ended(now) || isHeld(now) && now.Lock.Token > v.Lock.Token })
	if ended(now) {
		return nil
	}
	s.Expect(now.Lock.Holder).NotTo(Equal(v.Lock.Holder))
	return now
}

// awaitWaiting waits until a region has a text among its wait reasons.
func (s *faultTest) awaitWaiting(text string, by ...*region) {
	s.t.Helper()
	s.awaitWaitingAny([]string{text}, by...)
}

// awaitWaitingAny waits until a region has one of several texts among its wait reasons.
func (s *faultTest) awaitWaitingAny(texts []string, by ...*region) {
	s.t.Helper()
	s.Eventually(func() (all []string) {
		for _, r := range by {
			all = append(all, r.get().Status.Waiting)
		}
		return all
	}).Should(ContainElement(Satisfy(func(waiting string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(waiting, text) })
	})), "none of %q", texts)
}

// waitingForDead returns the wait reasons of the others when the operator of a region is dead, and has accepted
// its order or not.
func waitingForDead(r *region) []string {
	return []string{"no process of " + r.prefix + " is alive", r.prefix + " has accepted the order"}
}

// awaitReason waits until a condition of a region has a reason.
func (s *faultTest) awaitReason(r *region, condition, reason string) metav1.Condition {
	s.t.Helper()
	var found metav1.Condition
	s.Eventually(func() string {
		found = findCondition(r.get().Status.Conditions, condition)
		return found.Reason
	}).Should(Equal(reason), func() string { return r.prefix + ": " + found.Message })
	return found
}

// countEvents returns how often the operator of a region has logged an event.
func (s *faultTest) countEvents(r *region, reason string) int {
	s.t.Helper()
	return len(s.operatorLogLines(r, `"reason": "`+reason+`"`))
}

// awaitNewEvent waits until it has logged the event again.
func (s *faultTest) awaitNewEvent(r *region, reason string, before int) {
	s.t.Helper()
	s.Eventually(func() int { return s.countEvents(r, reason) }).Should(BeNumerically(">", before), "%s of %s", reason, r.prefix)
}

// id returns the ID of the region's only member.
func (r *region) id() coordination.MemberID {
	r.f.t.Helper()
	members := r.get().Status.Members
	r.f.Expect(members).To(HaveLen(1))
	return coordination.MemberID(members[0].ID)
}

// lateNeedAndWithdrawnNeed adds a need within the quiet window, and withdraws another one: the action includes
// only the present needs.
func (s *faultTest) lateNeedAndWithdrawnNeed() {
	s.setQuietWindow(5 * time.Second)
	first, second, third := s.regions[0], s.regions[1], s.regions[2]
	for range maxAttempts {
		before, token := s.restartCounts(), s.readView().Token
		old, args := third.get().Spec.Args, s.newArg()
		joins := func(r *region, set coordination.Set) {
			id := r.id()
			r.edit(args)
			s.awaitView(func(v *view) bool { _, ok := v.Sets[set][id]; return ok || v.Intent != nil })
		}
		joins(first, pendingForRestart)
		joins(third, readyForRestart)
		joins(second, pendingForRestart)
		id := third.id()
		third.edit(func(spec *spec) { spec.Args = old })
		v := s.awaitView(func(v *view) bool { _, ok := v.Sets[pendingForRestart][id]; return !ok || v.Intent != nil })
		s.awaitSettled()
		if v.Intent != nil {
			continue // the window had passed
		}
		want := []coordination.MemberID{first.id(), second.id()}
		s.Expect(s.restartsSince(before)).To(Equal(onceEach(string(want[0]), string(want[1]))))
		s.Expect(s.actionsSince(token)).To(Equal([][]coordination.MemberID{want}), "one action for both")
		done := s.readView().DoneRecords[0]
		s.Expect(time.Since(done.Since).Abs()).To(BeNumerically(">", 30*time.Minute), "the clock of %s is off", done.Holder)
		s.setQuietWindow(time.Second)
		return
	}
	s.Expect(maxAttempts).To(BeZero(), "the window had always passed")
}

// setQuietWindow sets the quiet window of all regions.
func (s *faultTest) setQuietWindow(window time.Duration) {
	s.t.Helper()
	s.editAll(func(spec *spec) { spec.AutomationOptions.QuietWindow = &metav1.Duration{Duration: window} })
	s.awaitSettled()
}

// actionsSince returns the members of the actions that began after a token.
func (s *faultTest) actionsSince(token int64) [][]coordination.MemberID {
	s.t.Helper()
	var all [][]coordination.MemberID
	for _, done := range s.readView().DoneRecords {
		if done.ID > token {
			all = append(all, slices.Sorted(maps.Keys(done.Members)))
		}
	}
	return all
}

// needWithdrawnDuringPlan restarts two followers. The need of the second one is withdrawn while the first is
// restarted, and the holder is killed at that moment: the next holder does not restart the second one.
func (s *faultTest) needWithdrawnDuringPlan() {
	for range maxAttempts {
		leader := s.leaderName()
		followers := s.otherRegions(s.memberRegion(coordination.MemberID(leader)))
		first, second := followers[0], followers[1]
		before, old, id, args := s.restartCounts(), second.get().Spec.Args, second.id(), s.newArg()
		s.setQuietWindow(2 * time.Second)
		first.edit(args)
		second.edit(args)
		v := s.awaitView(isHeld)
		second.edit(func(spec *spec) { spec.Args = old })
		late := func(now *view) bool { return endedSince(v)(now) || now.Intent.StepIndex > 0 }
		gone, left := s.killHolder(func(now *view) bool {
			_, pending := now.Sets[pendingForRestart][id]
			return late(now) || isHeld(now) && !pending
		}, late)
		s.awaitSettled()
		if gone != nil && isSameStep(gone, left) && len(v.Intent.Members) == 2 {
			s.Expect(s.restartsSince(before)).To(Equal(onceEach(string(first.id()))))
			s.setQuietWindow(time.Second)
			return
		}
	}
	s.Expect(maxAttempts).To(BeZero(), "the plan had always ended")
}

// holderHangs pauses the holder of the lock for longer than its session.
func (s *faultTest) holderHangs() {
	var old *region
	var token int64
	s.duringPlan(
		func(v *view) { _ = s.operatorRegion(v.Lock.Holder).operator.Pause() },
		func(v *view) bool {
			old, token = s.operatorRegion(v.Lock.Holder), v.Lock.Token
			lost := s.countEvents(old, lockLost)
			s.Expect(s.awaitTakeover(v)).NotTo(BeNil(), "its own member is not done without it")
			s.awaitWaitingAny(waitingForDead(old), s.otherRegions(old)...)
			s.Expect(old.operator.Resume()).To(Succeed())
			s.awaitNewEvent(old, lockLost, lost)
			return true
		})
	// The agents refuse its old token too.
	id := old.id()
	client, err := agent.NewClient("http://" + old.address)
	s.Expect(err).NotTo(HaveOccurred())
	_, err = client.Restart(s.t.Context(), string(id), agent.Order{Token: token, System: clusterName, ID: "late"})
	s.Expect(err).To(MatchError(agent.ErrFenced))
}

// holderIsDenied puts the holder of the lock on the deny list: another operator continues, and the denied one
// does not get the lock again before it is removed from the list.
func (s *faultTest) holderIsDenied() {
	var old *region
	s.duringPlan(noop, func(v *view) bool {
		old = s.operatorRegion(v.Lock.Holder)
		lost := s.countEvents(old, lockLost)
		for _, r := range s.otherRegions(old) {
			r.edit(func(spec *spec) {
				spec.AutomationOptions.DenyList = []string{v.Lock.Holder}
			})
		}
		if s.awaitTakeover(v) == nil {
			s.editAll(func(spec *spec) { spec.AutomationOptions.DenyList = nil })
			return false
		}
		s.awaitNewEvent(old, lockLost, lost)
		s.awaitReason(old, coordination.ConditionCoordinated, coordination.ReasonDenied)
		// Even if no other operator is alive.
		for _, r := range s.otherRegions(old) {
			s.Expect(r.operator.Kill()).To(Succeed())
		}
		s.awaitView(func(v *view) bool { return v.Lock == nil && len(v.Instances) == 1 })
		for _, r := range s.otherRegions(old) {
			r.restartOperator()
		}
		last := s.awaitView(func(v *view) bool { return v.Lock != nil }).Lock
		s.Expect(last.Holder).NotTo(Equal(v.Lock.Holder))
		return true
	})
	s.editAll(func(spec *spec) { spec.AutomationOptions.DenyList = nil })
	s.awaitSettled()
	s.awaitView(func(v *view) bool { return len(v.Denied) == 0 })
}
