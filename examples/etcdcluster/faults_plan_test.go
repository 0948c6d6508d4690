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

// People change their minds and operators hang while something is being done or about to be, and no two operators agree
// what time it is. Every member is restarted once nevertheless.
func TestChangesInTheMiddle(t *testing.T) {
	o := faulty()
	// What they write down shows it, and nothing else does.
	o.prepare = func(r *region) {
		r.clockOff = map[string]time.Duration{"dc1": -time.Hour, "dc2": time.Hour, "dc3": 2 * time.Hour}[r.prefix]
	}
	w := begin(t, o)
	play(t, w, []act{
		{"one is late, and one does not want it any more", (*scene).lateAndWithdrawn},
		{"one does not want it any more in the middle", (*scene).withdrawnInTheMiddle},
		{"who acts hangs", (*scene).hangs},
		{"who acts is denied", (*scene).denied},
		{"prefixes are changed", (*scene).prefixes},
		{"who obeys goes local", (*scene).obeyingGoesLocal},
		{"who acts goes local", (*scene).actingGoesLocal},
		{"a local one crashes", (*scene).localCrashes},
	})
	w.checkHistory()
}

// lockLost is what an operator notes that finds out that it may not act any more.
const lockLost = "LockLost"

// midPlan makes a change that all members are restarted for. At the first step it does something at once, and then
// something that tells whether it came to pass in the middle of the plan. If not it is tried again.
func (s *scene) midPlan(atOnce func(*view), then func(*view) bool) {
	s.t.Helper()
	for range attempts {
		before := s.disturbed()
		s.change()
		v := s.wait(s.when(held, atOnce))
		in := then(v)
		s.settled()
		s.Expect(s.since(before)).To(Equal(once(s.names()...)))
		if in {
			return
		}
	}
	s.Expect(attempts).To(BeZero(), "it was never in the middle")
}

func nothing(*view) {}

// amid tells whether the plan of a view still goes on.
func (s *scene) amid(v *view) bool {
	s.t.Helper()
	return !overSince(v)(s.look())
}

// overSince tells whether the plan of a view is done.
func overSince(v *view) func(*view) bool {
	return func(now *view) bool { return now.Intent == nil || now.Intent.ID != v.Intent.ID }
}

// taken waits until another one goes on with the plan of a view. It is nil if the plan was done before.
func (s *scene) taken(v *view) *view {
	s.t.Helper()
	over := overSince(v)
	now := s.until(func(now *view) bool { return over(now) || held(now) && now.Lock.Token > v.Lock.Token })
	if over(now) {
		return nil
	}
	s.Expect(now.Lock.Holder).NotTo(Equal(v.Lock.Holder))
	return now
}

// says waits until a region says what it waits for.
func (s *scene) says(text string, by ...*region) {
	s.t.Helper()
	s.saysOneOf([]string{text}, by...)
}

// saysOneOf waits until a region says that it waits for something of several.
func (s *scene) saysOneOf(texts []string, by ...*region) {
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

// gone are what the others wait for when the operator of a region is gone: it has accepted its order, or not.
func gone(r *region) []string {
	return []string{"no process of " + r.prefix + " is alive", r.prefix + " has accepted the order"}
}

// reports waits until a region has a reason in a condition.
func (s *scene) reports(r *region, condition, reason string) metav1.Condition {
	s.t.Helper()
	var found metav1.Condition
	s.Eventually(func() string {
		found = find(r.get().Status.Conditions, condition)
		return found.Reason
	}).Should(Equal(reason), func() string { return r.prefix + ": " + found.Message })
	return found
}

// said is how often the operator of a region has noted something.
func (s *scene) said(r *region, reason string) int {
	s.t.Helper()
	return len(s.linesOf(r, `"reason": "`+reason+`"`))
}

// saysAgain waits until it has noted it once more.
func (s *scene) saysAgain(r *region, reason string, before int) {
	s.t.Helper()
	s.Eventually(func() int { return s.said(r, reason) }).Should(BeNumerically(">", before), "%s of %s", reason, r.prefix)
}

// id is that of the region's one member.
func (r *region) id() coordination.MemberID {
	r.w.t.Helper()
	members := r.get().Status.Members
	r.w.Expect(members).To(HaveLen(1))
	return coordination.MemberID(members[0].ID)
}

// lateAndWithdrawn lets a region join within the quiet window, and another one join and leave: what is done is for
// those who want it, at once.
func (s *scene) lateAndWithdrawn() {
	s.quiet(5 * time.Second)
	first, second, third := s.regions[0], s.regions[1], s.regions[2]
	for range attempts {
		before, token := s.disturbed(), s.look().Token
		old, args := third.get().Spec.Args, s.next()
		joins := func(r *region, set coordination.Set) {
			id := r.id()
			r.edit(args)
			s.until(func(v *view) bool { _, is := v.Sets[set][id]; return is || v.Intent != nil })
		}
		joins(first, pendingForRestart)
		joins(third, readyForRestart)
		joins(second, pendingForRestart)
		id := third.id()
		third.edit(func(spec *spec) { spec.Args = old })
		v := s.until(func(v *view) bool { _, is := v.Sets[pendingForRestart][id]; return !is || v.Intent != nil })
		s.settled()
		if v.Intent != nil {
			continue // somebody was so slow that the window had passed
		}
		want := []coordination.MemberID{first.id(), second.id()}
		s.Expect(s.since(before)).To(Equal(once(string(want[0]), string(want[1]))))
		s.Expect(s.actsSince(token)).To(Equal([][]coordination.MemberID{want}), "one for both")
		done := s.look().DoneRecords[0]
		s.Expect(time.Since(done.Since).Abs()).To(BeNumerically(">", 30*time.Minute), "the clock of %s is off", done.Holder)
		s.quiet(time.Second)
		return
	}
	s.Expect(attempts).To(BeZero(), "nobody was in time")
}

// quiet sets the quiet window.
func (s *scene) quiet(window time.Duration) {
	s.t.Helper()
	s.editAll(func(spec *spec) { spec.AutomationOptions.QuietWindow = &metav1.Duration{Duration: window} })
	s.settled()
}

// actsSince are the members of what was done after a token.
func (s *scene) actsSince(token int64) [][]coordination.MemberID {
	s.t.Helper()
	var all [][]coordination.MemberID
	for _, done := range s.look().DoneRecords {
		if done.ID > token {
			all = append(all, slices.Sorted(maps.Keys(done.Members)))
		}
	}
	return all
}

// withdrawnInTheMiddle restarts two followers, and the second does not want it any more while the first is restarted. Who
// acts is killed right then, and also who goes on leaves the second alone.
func (s *scene) withdrawnInTheMiddle() {
	for range attempts {
		leader := s.leader()
		followers := s.others(s.owner(coordination.MemberID(leader)))
		first, second := followers[0], followers[1]
		before, old, id, args := s.disturbed(), second.get().Spec.Args, second.id(), s.next()
		s.quiet(2 * time.Second)
		first.edit(args)
		second.edit(args)
		v := s.until(held)
		second.edit(func(spec *spec) { spec.Args = old })
		late := func(now *view) bool { return overSince(v)(now) || now.Intent.StepIndex > 0 }
		gone, left := s.killHolder(func(now *view) bool {
			_, is := now.Sets[pendingForRestart][id]
			return late(now) || held(now) && !is
		}, late)
		s.settled()
		if gone != nil && stillAt(gone, left) && len(v.Intent.Members) == 2 {
			s.Expect(s.since(before)).To(Equal(once(string(first.id()))))
			s.quiet(time.Second)
			return
		}
	}
	s.Expect(attempts).To(BeZero(), "it was always too late")
}

// hangs pauses who acts for longer than its session, and lets it go on then.
func (s *scene) hangs() {
	var old *region
	var token int64
	s.midPlan(
		func(v *view) { _ = s.of(v.Lock.Holder).operator.Pause() },
		func(v *view) bool {
			old, token = s.of(v.Lock.Holder), v.Lock.Token
			lost := s.said(old, lockLost)
			s.Expect(s.taken(v)).NotTo(BeNil(), "its own member is not done without it")
			s.saysOneOf(gone(old), s.others(old)...)
			s.Expect(old.operator.Resume()).To(Succeed())
			s.saysAgain(old, lockLost, lost)
			return true
		})
	// Also the agents know that its token is an old one.
	id := old.id()
	client, err := agent.NewClient("http://" + old.address)
	s.Expect(err).NotTo(HaveOccurred())
	_, err = client.Restart(s.t.Context(), string(id), agent.Order{Token: token, System: clusterName, ID: "late"})
	s.Expect(err).To(MatchError(agent.ErrFenced))
}

// denied puts who acts on the deny list: another one goes on, and it does not get the lock again until it is taken off
// the list.
func (s *scene) denied() {
	var old *region
	s.midPlan(nothing, func(v *view) bool {
		old = s.of(v.Lock.Holder)
		lost := s.said(old, lockLost)
		for _, r := range s.others(old) {
			r.edit(func(spec *spec) {
				spec.AutomationOptions.DenyList = []string{v.Lock.Holder}
			})
		}
		if s.taken(v) == nil {
			s.editAll(func(spec *spec) { spec.AutomationOptions.DenyList = nil })
			return false
		}
		s.saysAgain(old, lockLost, lost)
		s.reports(old, coordination.ConditionCoordinated, coordination.ReasonDenied)
		// Nor does it when there is nobody else.
		for _, r := range s.others(old) {
			s.Expect(r.operator.Kill()).To(Succeed())
		}
		s.until(func(v *view) bool { return v.Lock == nil && len(v.Instances) == 1 })
		for _, r := range s.others(old) {
			r.again()
		}
		last := s.until(func(v *view) bool { return v.Lock != nil }).Lock
		s.Expect(last.Holder).NotTo(Equal(v.Lock.Holder))
		return true
	})
	s.editAll(func(spec *spec) { spec.AutomationOptions.DenyList = nil })
	s.settled()
	s.until(func(v *view) bool { return len(v.Denied) == 0 })
}
