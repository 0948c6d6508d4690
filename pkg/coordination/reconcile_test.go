package coordination_test

import (
	"errors"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func TestReconcile(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a, b, c := w.join("a", coordination.Restart, "a-1", "a-2"), w.join("b", coordination.Restart, "b-1"), w.join("c", coordination.Restart, "c-1")
		for _, p := range []*participant{a, b, c} {
			p.settings.Expected = []string{"a", "b", "c"}
		}
		reconcileRounds(a, b, c)
		w.Expect(a.done).To(Equal([]string{"a-1", "a-2"}))
		w.Expect(b.done).To(Equal([]string{"b-1"}))
		w.Expect(c.done).To(Equal([]string{"c-1"}))
		done := w.lastDone()
		w.Expect(done.Failure).To(BeEmpty())
		w.Expect(done.Members).To(HaveLen(4))
		w.Expect(w.view().DoneRecords).To(HaveLen(1), "one action for all")
		before := w.view().Revision
		reconcileRounds(a, b, c)
		w.Expect(w.view().Revision).To(Equal(before), "nothing is written when nothing is needed")
	})
}

// An action ends with the first failure, unless the policies of all participants continue with the other
// members.
func TestFailedOrderEndsAction(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]coordination.Policy{"gives up": {}, "goes on": {Failing: coordination.Continue}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(_ *testing.T, w *fixture) {
				a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
				a.settings.Policy, b.settings.Policy = policy, policy
				a.execute = func(coordination.Task) error { return coordination.Failed("bad flag") }
				a.reconcile()
				for range 6 { // until the first outcome: after that it is retried
					b.reconcile()
					if len(w.view().DoneRecords) > 0 {
						break
					}
					a.reconcile()
				}
				done := w.view().DoneRecords[0]
				if policy.Failing == coordination.Continue {
					w.Expect(b.done).To(Equal([]string{"b-1"}))
					w.Expect(done.LeftOut).To(HaveKeyWithValue(coordination.MemberID("a-1"), ContainSubstring("bad flag")))
					return
				}
				w.Expect(b.done).To(BeEmpty())
				w.Expect(done.Failure).To(ContainSubstring("restart a-1 failed: bad flag"))
			})
		})
	}
}

// A failure of a step that the holder carries out itself ends the action too.
func TestFailedHolderStepEndsAction(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a := w.join("a", coordination.Restart, "a-1", "a-2")
		a.plan = func(coordination.Proposal) []coordination.Step {
			return []coordination.Step{{Do: "restart", Members: only("a-1")}, {Do: "restart", Members: only("a-2")}}
		}
		a.execute = func(coordination.Task) error { return coordination.Failed("bad flag") }
		for range 6 {
			if a.reconcile(); len(w.view().DoneRecords) > 0 {
				break
			}
		}
		w.Expect(w.lastDone().Failure).To(ContainSubstring("restart a-1 failed: bad flag"))
		w.Expect(a.done).To(BeEmpty())
	})
}

// An accepted order is not withdrawn, because its participant may be carrying it out, unless it was fenced.
func TestAcceptedOrderIsNotWithdrawn(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
		impatient := coordination.Policy{Missing: coordination.LeaveOut}
		a.settings.Policy, b.settings.Policy = impatient, impatient
		slow := true
		a.execute = func(coordination.Task) error {
			if slow {
				return coordination.NotYet("it takes a while")
			}
			return nil
		}
		a.settings.Denied = []string{"a-operator"} // so that b is the holder
		b.reconcile()
		for range 4 {
			a.reconcile()
			b.reconcile()
		}
		w.Expect(w.view().Accepted("a-1")).To(BeTrue())
		w.Expect(a.Close(t.Context())).To(Succeed()) // it hangs, and its session expires
		for range 4 {
			b.reconcile()
		}
		w.Expect(b.done).To(BeEmpty(), "a-1 may be restarting")
		w.Expect(b.lastResult.WaitReasons).To(ContainElement(HaveField("Reason", ContainSubstring("has accepted the order"))))

		fenced := map[coordination.MemberID]int64{}
		b.system = &fencingSystem{b.fakeSystem, fenced}
		before := w.view().Token
		for range 6 {
			b.reconcile()
		}
		w.Expect(fenced["a-1"]).To(BeNumerically(">", before))
		w.Expect(b.done).To(Equal([]string{"b-1"}))
		w.Expect(w.lastDone().LeftOut).To(HaveKey(coordination.MemberID("a-1")))
	})
}

// An order that no participant has accepted is withdrawn when its participant is dead, and can no longer be
// carried out.
func TestWithdrawnOrderIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
		impatient := coordination.Policy{Missing: coordination.LeaveOut}
		a.settings.Policy, b.settings.Policy = impatient, impatient
		a.settings.Denied = []string{"a-operator"}
		a.reconcile()
		b.reconcile()
		b.reconcile()
		order := a.Order(w.view(), "a-1")
		w.Expect(order).NotTo(BeNil())
		w.Expect(a.Close(t.Context())).To(Succeed())
		for range 8 {
			b.reconcile()
		}
		w.Expect(b.done).To(Equal([]string{"b-1"}))
		w.Expect(w.lastDone().LeftOut).To(HaveKey(coordination.MemberID("a-1")))
		w.Expect(a.Configure(t.Context(), a.settings)).To(Succeed())
		w.Expect(a.Accept(t.Context(), order)).To(MatchError(kv.ErrConflict))
	})
}

// If the system has seen a higher token, for example before the store was restored, the token is raised.
func TestTokenIsRaised(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]bool{"an order": true, "a step of the holder": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(_ *testing.T, w *fixture) {
				a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart)
				const newestToken = 100
				var tokens []int64
				a.plan = func(coordination.Proposal) []coordination.Step {
					return []coordination.Step{{Do: "restart", Members: only("a-1"), Order: order}}
				}
				b.plan = a.plan
				refuse := func(task coordination.Task) error {
					tokens = append(tokens, task.Token)
					if task.Token < newestToken {
						return coordination.Fenced(newestToken)
					}
					return nil
				}
				a.execute, b.execute = refuse, refuse
				b.settings.Denied = []string{"b-operator"} // so that a is the holder, and notices what it has done
				reconcileRounds(a, b)
				w.Expect(tokens).To(HaveLen(2))
				w.Expect(tokens[1]).To(BeNumerically(">", newestToken))
				w.Expect(w.lastDone().Failure).To(BeEmpty())
			})
		})
	}
}

// A step with Together begins after all participants have accepted it, and not at all if one of them cannot.
func TestTogetherStartsAfterAllAccept(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a, b := w.join("a", upgrade, "a-1", "a-2"), w.join("b", upgrade, "b-1")
		together := func(proposal coordination.Proposal) []coordination.Step {
			return []coordination.Step{{Do: "upgrade", Members: proposal.IDs(), Order: true, Together: true}}
		}
		a.plan, b.plan = together, together
		b.reconcile()
		for range 4 {
			a.reconcile()
		}
		w.Expect(w.view().Accepted("a-1")).To(BeTrue())
		w.Expect(a.done).To(BeEmpty(), "b has not accepted")
		b.reconcile()
		w.Expect(b.done).To(BeEmpty(), "nobody has said go")
		reconcileRounds(a, b)
		w.Expect(a.done).To(Equal([]string{"a-1", "a-2"}))
		w.Expect(b.done).To(Equal([]string{"b-1"}))
		w.Expect(w.lastDone().Steps).To(HaveLen(1))
	})
}

func TestTogetherFailsForAll(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a, b := w.join("a", upgrade, "a-1"), w.join("b", upgrade, "b-1")
		impatient := coordination.Policy{Missing: coordination.LeaveOut}
		a.settings.Policy, b.settings.Policy = impatient, impatient
		a.plan = func(proposal coordination.Proposal) []coordination.Step {
			return []coordination.Step{{Do: "upgrade", Members: proposal.IDs(), Order: true, Together: true}}
		}
		b.reconcile()
		a.reconcile()
		a.reconcile()
		w.Expect(b.Close(t.Context())).To(Succeed())
		for len(w.view().DoneRecords) == 0 {
			a.reconcile()
		}
		w.Expect(w.view().DoneRecords[0].Failure).To(ContainSubstring("b-1"))
		w.Expect(a.done).To(BeEmpty())
	})
}

// In local mode each participant acts on its own members under the lock, and writes no entries.
func TestReconcileLocally(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a, b := w.join("a", coordination.Restart, "a-1", "a-2"), w.join("b", coordination.Restart, "b-1")
		a.settings.Mode, b.settings.Mode = coordination.Local, coordination.Local
		a.execute = func(coordination.Task) error { return coordination.NotYet("it takes a while") }
		a.reconcile()
		for range 4 {
			a.reconcile()
			b.reconcile()
		}
		w.Expect(b.done).To(BeEmpty(), "a has the lock")
		w.Expect(b.lastResult.WaitReasons).To(ContainElement(HaveField("For", "a-operator")))
		a.execute = nil
		reconcileRounds(a, b)
		w.Expect(a.done).To(Equal([]string{"a-1", "a-2"}))
		w.Expect(b.done).To(Equal([]string{"b-1"}))
		w.Expect(w.view().Participants).To(BeEmpty())
		w.Expect(w.view().Lock).To(BeNil())
	})
}

// A plan does not wait for a member to become healthy if the member has a new need.
func TestNewNeedEndsAction(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
		sick := coordination.NotYet("a-1 does not start")
		a.healthy, b.healthy = sick, sick
		reconcileRounds(a, b)
		w.Expect(slices.Concat(a.done, b.done)).To(Equal([]string{"a-1"}))
		w.Expect(w.view().Intent).NotTo(BeNil())
		a.needs.Pending = []coordination.Need{{Action: upgrade, Member: "a-1", Ready: true}}
		for range 6 {
			a.reconcile()
			b.reconcile()
			if done := w.view().DoneRecords; len(done) > 0 {
				w.Expect(done[0].Failure).To(ContainSubstring("a-1 needs Upgrade first"))
				return
			}
		}
		t.Error("it waits without end")
	})
}

// The same in local mode, where the store has no needs.
func TestNewNeedEndsActionInLocalMode(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
		a.settings.Mode, b.settings.Mode = coordination.Local, coordination.Local
		a.needs.Pending = append(a.needs.Pending, coordination.Need{Action: upgrade, Member: "a-1"}) // known before, and not ready
		upgrades := a.needs.Pending[1:]
		a.healthy = coordination.NotYet("a-1 does not start")
		a.execute = func(coordination.Task) error {
			a.needs.Pending = slices.Clone(upgrades) // as in join, except for the upgrade
			return nil
		}
		for range 6 {
			a.reconcile()
			a.needs.Pending = slices.Clone(upgrades)
			b.reconcile()
		}
		w.Expect(a.lastResult.HoldsLock).To(BeTrue(), "an earlier need does not end the plan")
		w.Expect(b.done).To(BeEmpty())
		a.needs.Pending = append(slices.Clone(upgrades), coordination.Need{Action: "Replacement", Member: "a-1", Ready: true})
		w.Expect(a.reconcile().Events).To(ContainElement(And(HaveField("Reason", "GaveUp"), HaveField("Message", ContainSubstring("a-1 needs Replacement first")))))
		b.reconcile()
		b.reconcile()
		w.Expect(b.done).To(Equal([]string{"b-1"}), "the lock is free")
	})
}

// If Healthy or Replan fails, the action is given up.
func TestFailedReplanEndsAction(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		healthy, replan error
		want            string
	}{
		"a step":   {coordination.Failed("a-1 does not start"), nil, "restart a-1 failed: a-1 does not start"},
		"the rest": {nil, coordination.Failed("c is removed first"), "c is removed first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(_ *testing.T, w *fixture) {
				a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
				for _, p := range []*participant{a, b} {
					p.healthy = test.healthy
					p.replan = func(intent *coordination.Intent) ([]coordination.Step, error) {
						return intent.Steps[intent.StepIndex:], test.replan
					}
					p.system = replanningSystem{p.fakeSystem}
				}
				a.reconcile()
				for len(w.view().DoneRecords) == 0 {
					b.reconcile()
					a.reconcile()
				}
				w.Expect(w.view().DoneRecords[0].Failure).To(Equal(test.want))
				w.Expect(b.done).To(BeEmpty())
			})
		})
	}
}

// A replacement of a member has no need of its own: the order for it stands until its participant leaves. Then
// the rest is planned again, so that the replaced member is not removed.
func TestOrderForReplacementMember(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a, b := w.join("a", upgrade, "a-1"), w.join("b", upgrade, "b-1")
		b.needs.Members = append(b.needs.Members, "b-2")
		var replanned []int
		for _, p := range []*participant{a, b} {
			p.plan = func(coordination.Proposal) []coordination.Step {
				return []coordination.Step{
					{Do: "start", Members: only("b-2"), Order: true}, {Do: "remove", Members: only("b-1")}, {Do: "restart", Members: only("a-1"), Order: true},
				}
			}
			p.replan = func(intent *coordination.Intent) ([]coordination.Step, error) {
				_, out := intent.LeftOut["b-2"]
				rest := slices.DeleteFunc(slices.Clone(intent.Steps[intent.StepIndex:]), func(s coordination.Step) bool { return out && s.Do == "remove" })
				replanned = append(replanned, len(rest))
				return rest, nil
			}
			p.system = replanningSystem{p.fakeSystem}
		}
		b.settings.Denied = []string{"b-operator"}
		b.reconcile()
		for range 4 {
			a.reconcile()
		}
		w.Expect(w.view().Intent).To(HaveField("StepIndex", 0), "b has not answered")
		b.settings.Mode = coordination.Local
		w.Expect(b.Configure(t.Context(), b.settings)).To(Succeed())
		for range 8 {
			a.reconcile()
		}
		w.Expect(replanned[0]).To(Equal(1), "without the step that removes b-1")
		w.Expect(a.done).To(Equal([]string{"a-1"}), "b-1 is not removed")
		w.Expect(w.lastDone().LeftOut).To(HaveKey(coordination.MemberID("b-2")))
	})
}

// If Plan returns NotYet, the action does not begin. Other errors are not hidden by it.
func TestPlanNotYet(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a := w.join("a", coordination.Restart, "a-1")
		a.plan = func(coordination.Proposal) []coordination.Step {
			return []coordination.Step{{Do: "restart", Members: only("a-1"), Order: true}}
		}
		a.notYet = coordination.NotYet("the system is not in sync")
		for range 4 {
			a.reconcile()
		}
		w.Expect(w.view().Lock).To(BeNil())
		w.Expect(a.lastResult.WaitReasons).To(ContainElement(HaveField("Reason", "the system is not in sync")))
		unreachable := errors.New("it cannot be reached")
		a.notYet = errors.Join(a.notYet, unreachable)
		_, err := a.Reconcile(t.Context(), a.settings, a.system)
		w.Expect(err).To(MatchError(unreachable))
	})
}

// A participant that leaves first answers the orders that it has accepted.
func TestLeaveAfterAccepting(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
		a.settings.Denied = []string{"a-operator"} // so that b is the holder
		a.execute = func(coordination.Task) error { return coordination.NotYet("it takes a while") }
		b.reconcile()
		for !w.view().Accepted("a-1") {
			a.reconcile()
			b.reconcile()
		}
		a.settings = coordination.Settings{Mode: coordination.Local}
		again := *a
		again.Coordinator = w.process("a") // another process than the one that has accepted the order
		for _, p := range []*participant{a, &again} {
			p.reconcile()
			b.reconcile()
			w.Expect(w.view().Present("a")).To(BeTrue())
			w.Expect(b.done).To(BeEmpty(), "a-1 may be restarting")
		}
		a.execute = nil
		reconcileRounds(a, b)
		w.Expect(w.view().Present("a")).To(BeFalse())
		w.Expect(slices.Sorted(slices.Values(a.done))).To(Equal([]string{"a-1"}))
		w.Expect(b.done).To(Equal([]string{"b-1"}))
	})
}

// A participant whose object is deleted first answers the accepted order, then removes all its entries.
func TestLeaveRemovesEntries(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
		a.settings.Denied = []string{"a-operator"} // so that b is the holder
		a.execute = func(coordination.Task) error { return coordination.NotYet("it takes a while") }
		b.reconcile()
		for !w.view().Accepted("a-1") {
			a.reconcile()
			b.reconcile()
		}
		w.Expect(a.Leave(t.Context(), a.system)).To(MatchError(coordination.ErrAccepted))
		b.reconcile()
		w.Expect(b.done).To(BeEmpty(), "a-1 may be restarting")
		a.execute = nil
		w.Expect(a.Leave(t.Context(), a.system)).To(MatchError(coordination.ErrAccepted), "it has only just answered")
		reconcileRounds(b)
		w.Expect(a.Leave(t.Context(), a.system)).To(Succeed())
		reconcileRounds(b)
		w.Expect(a.done).To(Equal([]string{"a-1"}))
		w.Expect(b.done).To(Equal([]string{"b-1"}))
		view := w.view()
		w.Expect(view.Participants).To(ConsistOf(HaveField("Name", "b-operator")))
		w.Expect(view.Sets).To(BeEmpty())
		w.Expect(view.Denied).To(BeEmpty())
	})
}

// An action waits for an expected participant that has never joined.
func TestActionWaitsForExpectedParticipant(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a := w.join("a", coordination.Restart, "a-1")
		a.settings.Expected = []string{"a", "b"}
		for range 4 {
			a.reconcile()
		}
		w.Expect(a.done).To(BeEmpty())
		w.Expect(a.lastResult.WaitReasons).To(ContainElement(HaveField("For", "b")))
		reconcileRounds(a, w.join("b", coordination.Restart))
		w.Expect(a.done).To(Equal([]string{"a-1"}))
	})
}

// If the holder dies, another participant continues. A participant that was left out stays pending.
func TestNextHolderContinuesIntent(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
		b.reconcile()
		for range 3 {
			a.reconcile()
		}
		w.Expect(w.view().Lock.Holder).To(Equal("a-operator"))
		w.Expect(a.Close(t.Context())).To(Succeed())
		b.reconcile()
		w.Expect(w.view().Intent.Holder).To(Equal("b-operator"))
		again := *a
		again.Coordinator = w.process("a")
		reconcileRounds(&again, b)
		w.Expect(a.done).To(Equal([]string{"a-1"}))
		w.Expect(b.done).To(Equal([]string{"b-1"}))
		w.Expect(w.view().DoneRecords).To(HaveLen(1))
	})
}
