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

// Regions are cut off from the members, or from their agents, the system itself has accidents, and at the end a region is gone for good. The
// others wait and say so, or go on as they are told.
func TestAccidents(t *testing.T) {
	o := faulty()
	o.prepare, o.accidents = func(r *region) { r.road = road(t) }, true
	w := begin(t, o)
	play(t, w, []act{
		{"who acts is cut off from the members", (*scene).actingLosesMembers},
		{"who obeys is cut off from the members", (*scene).obeyingLosesMembers},
		{"the agent of one that obeys hangs", (*scene).obeyingAgentHangs},
		{"the agent of the one that acts hangs", (*scene).actingAgentHangs},
		{"a member hangs", (*scene).memberHangs},
		{"the system's leader changes", (*scene).leaderChanges},
		{"one is gone and is left out", (*scene).goneIsLeftOut},
		{"a region does not return", (*scene).regionIsLost},
	})
	w.checkHistory()
}

// actingLosesMembers cuts who acts off from all members, and so from where the operators meet: another one goes on, and
// waits for it at its own member. Its API server answers, so that it can say what it misses.
func (s *scene) actingLosesMembers() {
	var cut *region
	s.midPlan(
		func(v *view) {
			cut = s.of(v.Lock.Holder)
			cut.road.Cut(faultproxy.Both)
		},
		func(v *view) bool {
			lost := s.said(cut, lockLost)
			s.Expect(s.taken(v)).NotTo(BeNil(), "its own member is not done without it")
			s.saysOneOf(gone(cut), s.others(cut)...)
			s.reports(cut, coordination.ConditionCoordinated, etcdclusterv1alpha1.ReasonStoreUnreachable)
			cut.road.Heal()
			s.saysAgain(cut, lockLost, lost)
			return true
		})
}

// obeyingLosesMembers cuts one off that does not act. Its connections are refused: it knows at once.
func (s *scene) obeyingLosesMembers() {
	var cut *region
	s.midPlan(
		func(v *view) {
			cut = s.others(s.of(v.Lock.Holder))[1]
			cut.road.Refuse()
		},
		func(v *view) bool {
			s.saysOneOf(gone(cut), s.others(cut)...)
			s.reports(cut, coordination.ConditionCoordinated, etcdclusterv1alpha1.ReasonStoreUnreachable)
			in := s.amid(v)
			cut.road.Heal()
			return in
		})
}

// obeyingAgentHangs pauses the agent of a region that does not act: its order is waited for.
func (s *scene) obeyingAgentHangs() {
	var cut *region
	s.midPlan(
		func(v *view) {
			cut = s.others(s.of(v.Lock.Holder))[1]
			_ = cut.agent.Pause()
		},
		func(v *view) bool {
			s.reports(cut, etcdclusterv1alpha1.ConditionReady, etcdclusterv1alpha1.ReasonAgentUnreachable)
			s.saysOneOf([]string{cut.prefix + " has to accept the order", cut.prefix + " has accepted the order"}, s.others(cut)...)
			in := s.amid(v)
			s.Expect(cut.agent.Resume()).To(Succeed())
			return in
		})
}

// actingAgentHangs pauses the agent of the region that acts: another one goes on.
func (s *scene) actingAgentHangs() {
	var cut *region
	s.midPlan(
		func(v *view) {
			cut = s.of(v.Lock.Holder)
			_ = cut.agent.Pause()
		},
		func(v *view) bool {
			s.Expect(s.taken(v)).NotTo(BeNil(), "its own member is not done without it")
			s.reports(cut, etcdclusterv1alpha1.ConditionReady, etcdclusterv1alpha1.ReasonAgentUnreachable)
			s.Expect(cut.agent.Resume()).To(Succeed())
			return true
		})
}

// memberHangs pauses a member that nobody wants to restart: no other is touched before it is well again.
func (s *scene) memberHangs() {
	followers := s.others(s.owner(coordination.MemberID(s.leader())))
	hangs, others := followers[0], s.others(followers[0])
	before, pid := s.disturbed(), hangs.member(hangs.id()).PID
	s.Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
	args := s.next()
	for _, r := range others {
		r.edit(args)
	}
	s.says("the system has no quorum", others...)
	s.Expect(s.since(before)).To(BeEmpty())
	s.Expect(syscall.Kill(pid, syscall.SIGCONT)).To(Succeed())
	s.settled()
	s.Expect(s.since(before)).To(Equal(once(string(others[0].id()), string(others[1].id()))))
}

// leaderChanges lets another member lead while the operators wait for each other, and kills the leader while one of them
// acts.
func (s *scene) leaderChanges() {
	for range attempts {
		before := s.disturbed()
		s.change()
		s.until(func(v *view) bool {
			return len(v.Sets[pendingForRestart]) == len(s.regions) || v.Intent != nil
		})
		s.moveLeader()
		atBarrier := s.look().Intent == nil
		v := s.until(func(v *view) bool { return held(v) && v.Intent.StepIndex > 0 })
		s.killLeader()
		in := s.amid(v)
		s.settled()
		s.Expect(s.since(before)).To(Equal(once(s.names()...)))
		if atBarrier && in {
			return
		}
	}
	s.Expect(attempts).To(BeZero(), "it was never at the barrier and in the middle")
}

// moveLeader lets another member lead.
func (s *scene) moveLeader() {
	s.t.Helper()
	var state *system.State
	s.Eventually(func() error {
		state = s.led()
		followers := slices.DeleteFunc(state.Voters(), func(m system.Member) bool { return m.ID == state.Leader })
		return s.system.MoveLeader(context.Background(), state.Leader, followers[0].ID)
	}).Should(Succeed())
	s.Eventually(s.term).Should(BeNumerically(">", termOf(state)))
}

// killLeader kills the leader's process, and sees that another one takes its place, and that there was an election.
func (s *scene) killLeader() {
	s.t.Helper()
	var state *system.State
	var id coordination.MemberID
	var pid int
	s.Eventually(func() bool { // it may just be restarted
		state = s.led()
		leader, _ := state.Member(state.Leader)
		id = coordination.MemberID(leader.Name)
		pid = s.owner(id).member(id).PID
		return pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
	}).Should(BeTrue())
	s.Eventually(func() int { return s.owner(id).member(id).PID }).Should(And(Not(BeZero()), Not(Equal(pid))))
	s.Eventually(s.term).Should(BeNumerically(">", termOf(state)))
}

// goneIsLeftOut kills an operator which has said that it wants something. The others wait for it, unless all regions have said
// before that it is left out then. When it is back it gets what it wanted.
func (s *scene) goneIsLeftOut() {
	gone := s.regions[2]
	there := s.others(gone)
	s.dies(gone)
	s.missing(etcdclusterv1alpha1.MissingLeaveOut, there...)
	s.says("of "+gone.prefix, there...) // it has not said so
	gone.again()
	s.settled()

	s.missing(etcdclusterv1alpha1.MissingLeaveOut, gone)
	s.settled()
	disturbed, id := s.disturbed(), gone.id()
	s.dies(gone)
	s.Eventually(func() map[string]int { return s.since(disturbed) }).Should(Equal(once(string(there[0].id()), string(there[1].id()))))
	v := s.until(func(v *view) bool { return v.Intent == nil })
	s.Expect(v.Sets[pendingForRestart]).To(HaveKey(id), "it is not forgotten")
	var why []string
	for _, done := range v.DoneRecords {
		why = append(why, done.LeftOut[id])
	}
	s.Expect(why).To(ContainElement(ContainSubstring("no process of " + gone.prefix)))

	gone.again()
	s.missing(etcdclusterv1alpha1.MissingWait, s.regions...)
	s.settled()
	s.Expect(s.since(disturbed)).To(Equal(once(s.names()...)))
}

// dies gives all members an argument, and kills a region's operator when it has said that its member has to be restarted.
func (s *scene) dies(r *region) {
	s.t.Helper()
	id := r.id()
	s.change()
	s.wait(s.when(
		func(v *view) bool { _, is := v.Sets[pendingForRestart][id]; return is },
		func(*view) { _ = r.operator.Kill() }))
}

// missing says what regions do about members that are not ready.
func (s *scene) missing(policy etcdclusterv1alpha1.MissingPolicy, of ...*region) {
	s.t.Helper()
	for _, r := range of {
		r.edit(func(spec *spec) { spec.AutomationOptions.Missing = policy })
	}
}

// regionIsLost kills all of a region for good that is to be restarted with the others. They wait for it, until it is given
// up: then its member is removed, and nobody remembers what it wanted. Two members cannot spare one, so that the others
// are restarted when there is a third.
func (s *scene) regionIsLost() {
	lost := s.regions[2]
	there := s.others(lost)
	before, id := s.disturbed(), lost.id()
	s.change()
	s.wait(s.when(
		func(v *view) bool { return v.Intent != nil && v.Intent.Members[id] != 0 },
		func(*view) { _, _ = lost.operator.Kill(), lost.agent.Kill() }))
	// What they wait for depends on how far they were: its turn, or that the one before it can be spared.
	s.saysOneOf([]string{string(id), "the system has no quorum"}, there...)
	for _, r := range there {
		r.edit(func(spec *spec) {
			spec.LostRegions = []etcdclusterv1alpha1.Prefix{etcdclusterv1alpha1.Prefix(lost.prefix)}
		})
	}
	s.Eventually(s.names).Should(Equal([]string{string(there[0].id()), string(there[1].id())}))
	s.until(func(v *view) bool { _, is := v.Sets[pendingForRestart][id]; return !is })
	s.Expect(s.keysOf(lost.prefix)).To(BeEmpty())
	acknowledged := s.writer.count()
	s.Eventually(s.writer.count).Should(BeNumerically(">", acknowledged+10), "two are enough to write")

	there[0].edit(func(spec *spec) { spec.Members = 2 })
	s.settled(there...)
	want := once(string(there[1].id()))
	for _, m := range there[0].get().Status.Members[:1] {
		want[string(m.ID)] = 1
	}
	s.Expect(s.since(before)).To(Equal(want))
	s.Expect(s.names()).To(HaveLen(3))
}
