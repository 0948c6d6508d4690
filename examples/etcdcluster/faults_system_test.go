//go:build faults

package main

import (
	"context"
	"slices"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// Regions are cut off from the members or from their agents, members fail, and finally a region is lost
// permanently. The others wait and report that, or continue according to the policy.
func TestSystemFaults(t *testing.T) {
	o := faultOptions()
	o.prepare, o.membersMayFail = func(r *region) { r.memberProxy = newMemberProxy(t) }, true
	w := start(t, o)
	runFaults(t, w, []faultCase{
		{"the holder is cut off from the members", (*faultTest).holderLosesMembers},
		{"an executor is cut off from the members", (*faultTest).executorLosesMembers},
		{"the agent of an executor hangs", (*faultTest).executorAgentHangs},
		{"the agent of the holder hangs", (*faultTest).holderAgentHangs},
		{"a member hangs", (*faultTest).memberHangs},
		{"the system's leader changes", (*faultTest).leaderChanges},
		{"a dead operator is left out", (*faultTest).deadOperatorIsLeftOut},
		{"a region is lost", (*faultTest).regionIsLost},
	})
	w.checkHistory()
}

// holderLosesMembers cuts the holder off from all members, and so from the store: another operator continues,
// and waits for it at its own member. Its API server is reachable, so that it can report the problem.
func (s *faultTest) holderLosesMembers() {
	var cut *region
	s.duringPlan(
		func(v *view) {
			cut = s.operatorRegion(v.Lock.Holder)
			cut.memberProxy.Cut(faultproxy.Both)
		},
		func(v *view) bool {
			lost := s.countEvents(cut, lockLost)
			s.Expect(s.awaitTakeover(v)).NotTo(BeNil(), "its own member is not restarted without it")
			s.awaitWaitingAny(waitingForDead(cut), s.otherRegions(cut)...)
			s.awaitReason(cut, coordination.ConditionCoordinated, etcdclusterv1alpha1.ReasonStoreUnreachable)
			cut.memberProxy.Heal()
			s.awaitNewEvent(cut, lockLost, lost)
			return true
		})
}

// executorLosesMembers cuts off an operator that is not the holder. Its connections are refused.
func (s *faultTest) executorLosesMembers() {
	var cut *region
	s.duringPlan(
		func(v *view) {
			cut = s.otherRegions(s.operatorRegion(v.Lock.Holder))[1]
			cut.memberProxy.Refuse()
		},
		func(v *view) bool {
			s.awaitWaitingAny(waitingForDead(cut), s.otherRegions(cut)...)
			s.awaitReason(cut, coordination.ConditionCoordinated, etcdclusterv1alpha1.ReasonStoreUnreachable)
			in := s.isInProgress(v)
			cut.memberProxy.Heal()
			return in
		})
}

// executorAgentHangs pauses the agent of a region that is not the holder's: the plan waits for its answer.
func (s *faultTest) executorAgentHangs() {
	var cut *region
	s.duringPlan(
		func(v *view) {
			cut = s.otherRegions(s.operatorRegion(v.Lock.Holder))[1]
			_ = cut.agent.Pause()
		},
		func(v *view) bool {
			s.awaitReason(cut, etcdclusterv1alpha1.ConditionReady, etcdclusterv1alpha1.ReasonAgentUnreachable)
			s.awaitWaitingAny([]string{cut.prefix + " has to accept the order", cut.prefix + " has accepted the order"}, s.otherRegions(cut)...)
			in := s.isInProgress(v)
			s.Expect(cut.agent.Resume()).To(Succeed())
			return in
		})
}

// holderAgentHangs pauses the agent of the holder's region: another operator continues.
func (s *faultTest) holderAgentHangs() {
	var cut *region
	s.duringPlan(
		func(v *view) {
			cut = s.operatorRegion(v.Lock.Holder)
			_ = cut.agent.Pause()
		},
		func(v *view) bool {
			s.Expect(s.awaitTakeover(v)).NotTo(BeNil(), "its own member is not restarted without it")
			s.awaitReason(cut, etcdclusterv1alpha1.ConditionReady, etcdclusterv1alpha1.ReasonAgentUnreachable)
			s.Expect(cut.agent.Resume()).To(Succeed())
			return true
		})
}

// memberHangs pauses a member without a need: no other member is disturbed before it is healthy again.
func (s *faultTest) memberHangs() {
	followers := s.otherRegions(s.memberRegion(coordination.MemberID(s.leaderName())))
	hangs, others := followers[0], s.otherRegions(followers[0])
	before, pid := s.restartCounts(), hangs.member(hangs.id()).PID
	s.Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
	args := s.newArg()
	for _, r := range others {
		r.edit(args)
	}
	s.awaitWaiting("the system has no quorum", others...)
	s.Expect(s.restartsSince(before)).To(BeEmpty())
	s.Expect(syscall.Kill(pid, syscall.SIGCONT)).To(Succeed())
	s.awaitSettled()
	s.Expect(s.restartsSince(before)).To(Equal(onceEach(string(others[0].id()), string(others[1].id()))))
}

// leaderChanges moves the leader while the operators wait at the barrier, and kills the leader during the plan.
func (s *faultTest) leaderChanges() {
	for range maxAttempts {
		before := s.restartCounts()
		s.changeArgs()
		s.awaitView(func(v *view) bool {
			return len(v.Sets[pendingForRestart]) == len(s.regions) || v.Intent != nil
		})
		s.moveLeader()
		atBarrier := s.readView().Intent == nil
		v := s.awaitView(func(v *view) bool { return isHeld(v) && v.Intent.StepIndex > 0 })
		s.killLeader()
		in := s.isInProgress(v)
		s.awaitSettled()
		s.Expect(s.restartsSince(before)).To(Equal(onceEach(s.voterNames()...)))
		if atBarrier && in {
			return
		}
	}
	s.Expect(maxAttempts).To(BeZero(), "it was never both at the barrier and during the plan")
}

// moveLeader makes another member the leader.
func (s *faultTest) moveLeader() {
	s.t.Helper()
	var state *system.State
	s.Eventually(func() error {
		state = s.awaitLeader()
		followers := slices.DeleteFunc(state.Voters(), func(m system.Member) bool { return m.ID == state.Leader })
		return s.system.MoveLeader(context.Background(), state.Leader, followers[0].ID)
	}).Should(Succeed())
	s.Eventually(s.raftTerm).Should(BeNumerically(">", highestTerm(state)))
}

// killLeader kills the leader's process, and waits for its restart and an election.
func (s *faultTest) killLeader() {
	s.t.Helper()
	var state *system.State
	var id coordination.MemberID
	var pid int
	s.Eventually(func() bool { // it may be restarting
		state = s.awaitLeader()
		leader, _ := state.Member(state.Leader)
		id = coordination.MemberID(leader.Name)
		pid = s.memberRegion(id).member(id).PID
		return pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
	}).Should(BeTrue())
	s.Eventually(func() int { return s.memberRegion(id).member(id).PID }).Should(And(Not(BeZero()), Not(Equal(pid))))
	s.Eventually(s.raftTerm).Should(BeNumerically(">", highestTerm(state)))
}

// deadOperatorIsLeftOut kills an operator that has declared a need. The others wait for it, unless the policies
// of all regions leave it out. After its return its member is restarted.
func (s *faultTest) deadOperatorIsLeftOut() {
	gone := s.regions[2]
	there := s.otherRegions(gone)
	s.killAfterDeclaring(gone)
	s.setMissing(etcdclusterv1alpha1.MissingLeaveOut, there...)
	s.awaitWaiting("of "+gone.prefix, there...) // its own policy waits
	gone.restartOperator()
	s.awaitSettled()

	s.setMissing(etcdclusterv1alpha1.MissingLeaveOut, gone)
	s.awaitSettled()
	disturbed, id := s.restartCounts(), gone.id()
	s.killAfterDeclaring(gone)
	s.Eventually(func() map[string]int { return s.restartsSince(disturbed) }).Should(Equal(onceEach(string(there[0].id()), string(there[1].id()))))
	v := s.awaitView(func(v *view) bool { return v.Intent == nil })
	s.Expect(v.Sets[pendingForRestart]).To(HaveKey(id), "the need stays")
	var why []string
	for _, done := range v.DoneRecords {
		why = append(why, done.LeftOut[id])
	}
	s.Expect(why).To(ContainElement(ContainSubstring("no process of " + gone.prefix)))

	gone.restartOperator()
	s.setMissing(etcdclusterv1alpha1.MissingWait, s.regions...)
	s.awaitSettled()
	s.Expect(s.restartsSince(disturbed)).To(Equal(onceEach(s.voterNames()...)))
}

// killAfterDeclaring changes an argument of all members, and kills a region's operator after it has declared
// that its member needs a restart.
func (s *faultTest) killAfterDeclaring(r *region) {
	s.t.Helper()
	id := r.id()
	s.changeArgs()
	s.await(s.onView(
		func(v *view) bool { _, ok := v.Sets[pendingForRestart][id]; return ok },
		func(*view) { _ = r.operator.Kill() }))
}

// setMissing sets the policy for members that are not ready.
func (s *faultTest) setMissing(policy etcdclusterv1alpha1.MissingPolicy, regions ...*region) {
	s.t.Helper()
	for _, r := range regions {
		r.edit(func(spec *spec) { spec.AutomationOptions.Missing = policy })
	}
}

// regionIsLost kills a region permanently during a restart of all members. The others wait for it until it is
// declared lost: then its member and its entries are removed. Two members cannot spare one, so that the others
// are restarted when a third one exists.
func (s *faultTest) regionIsLost() {
	lost := s.regions[2]
	there := s.otherRegions(lost)
	before, id := s.restartCounts(), lost.id()
	s.changeArgs()
	s.await(s.onView(
		func(v *view) bool { return v.Intent != nil && v.Intent.Members[id] != 0 },
		func(*view) { _, _ = lost.operator.Kill(), lost.agent.Kill() }))
	// The wait reason depends on the progress: an answer of the lost region, or the quorum before another restart.
	s.awaitWaitingAny([]string{string(id), "the system has no quorum"}, there...)
	for _, r := range there {
		r.edit(func(spec *spec) {
			spec.LostRegions = []etcdclusterv1alpha1.Prefix{etcdclusterv1alpha1.Prefix(lost.prefix)}
		})
	}
	s.Eventually(s.voterNames).Should(Equal([]string{string(there[0].id()), string(there[1].id())}))
	s.awaitView(func(v *view) bool { _, ok := v.Sets[pendingForRestart][id]; return !ok })
	s.Expect(s.keysOf(lost.prefix)).To(BeEmpty())
	acknowledged := s.writer.count()
	s.Eventually(s.writer.count).Should(BeNumerically(">", acknowledged+10), "two are enough to write")

	there[0].edit(func(spec *spec) { spec.Members = 2 })
	s.awaitSettled(there...)
	want := onceEach(string(there[1].id()))
	for _, m := range there[0].get().Status.Members[:1] {
		want[string(m.ID)] = 1
	}
	s.Expect(s.restartsSince(before)).To(Equal(want))
	s.Expect(s.voterNames()).To(HaveLen(3))
}
