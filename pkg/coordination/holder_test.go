package coordination_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// The tests of this file are about the holder of the lock and unexpected events.

// keepingSystem is a System whose members still need the action after a step is done.
type keepingSystem struct{ *fakeSystem }

func (k keepingSystem) Execute(_ context.Context, task coordination.Task) error {
	for _, id := range task.Members {
		k.done = append(k.done, task.Do+" "+string(id))
	}
	return nil
}

// A member that is left out of a step is left out of the later steps too.
func TestSkippedMemberIsInNoLaterStep(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
		both := []coordination.MemberID{"a-1", "b-1"}
		b.plan = func(coordination.Proposal) []coordination.Step {
			return []coordination.Step{
				{Do: "stop", Members: both, Order: true},
				{Do: "look at", Members: only("a-1")},
				{Do: "start", Members: both, Order: true},
				{Do: "check"},
			}
		}
		b.system = keepingSystem{b.fakeSystem}
		impatient := coordination.Policy{Missing: coordination.LeaveOut}
		a.settings.Policy, b.settings.Policy = impatient, impatient
		a.settings.Denied = []string{"a-operator"} // so that b is the holder
		a.reconcile()
		for w.view().Intent == nil {
			b.reconcile()
		}
		w.Expect(a.Close(t.Context())).To(Succeed())
		for len(w.view().DoneRecords) == 0 {
			b.reconcile()
		}
		done := w.view().DoneRecords[0]
		w.Expect(done.LeftOut).To(HaveKey(coordination.MemberID("a-1")))
		w.Expect(done.Failure).To(BeEmpty())
		w.Expect(done.Steps).To(Equal([]coordination.Step{
			{Do: "stop", Members: only("b-1"), Order: true}, {Do: "start", Members: only("b-1"), Order: true}, {Do: "check"},
		}))
		w.Expect(b.done).To(Equal([]string{"stop b-1", "start b-1"}))
	})
}

// slowFenceSystem is a System whose Fence returns NotYet at first.
type slowFenceSystem struct {
	*fakeSystem
	fenced int64
	notYet error
}

func (s *slowFenceSystem) Fence(_ context.Context, _ []coordination.MemberID, token int64) error {
	s.fenced = token
	return s.notYet
}

// A participant that is alive and slow can be fenced too. It then carries out nothing under the old token.
func TestSlowParticipantIsFenced(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
		impatient := coordination.Policy{Missing: coordination.GoOn, After: time.Minute}
		a.settings.Policy, b.settings.Policy = impatient, impatient
		a.settings.Denied = []string{"a-operator"} // so that b is the holder
		var last int64
		a.execute = func(task coordination.Task) error {
			last = task.Token
			return coordination.NotYet("it takes a while")
		}
		fence := &slowFenceSystem{b.fakeSystem, 0, coordination.NotYet("something is under way")}
		b.system = fence
		b.reconcile()
		for !w.view().Accepted("a-1") {
			a.reconcile()
			b.reconcile()
		}
		accepted := w.view().Answers["a-1"].Token
		b.reconcile()
		w.Expect(fence.fenced).To(BeZero(), "not before its time")
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		b.reconcile()
		w.Expect(fence.fenced).To(BeNumerically(">", accepted))
		a.reconcile()
		w.Expect(last).To(Equal(accepted), "the system refuses it")
		w.Expect(b.done).To(BeEmpty(), "something is under way")
		fence.notYet = nil
		for len(w.view().DoneRecords) == 0 {
			b.reconcile()
		}
		w.Expect(b.done).To(Equal([]string{"b-1"}))
		w.Expect(w.view().DoneRecords[0].LeftOut).To(HaveKey(coordination.MemberID("a-1")))
	})
}

// In local mode a participant does nothing while another one may be carrying out an intent.
func TestLocalModeWaitsForIntent(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a, alone := w.join("a", coordination.Restart, "a-1"), w.join("c", coordination.Restart, "c-1")
		alone.settings = coordination.Settings{}
		a.execute = func(coordination.Task) error { return coordination.NotYet("it takes a while") }
		for !w.view().Accepted("a-1") {
			a.reconcile()
		}
		_, err := coordination.BreakLock(t.Context(), w.Store, "", system) // the lock is free, and the intent exists
		w.Expect(err).NotTo(HaveOccurred())
		alone.reconcile()
		w.Expect(a.Close(t.Context())).To(Succeed()) // no participant is alive, and the order was accepted
		alone.reconcile()
		w.Expect(alone.done).To(BeEmpty())
		w.Expect(alone.lastResult.WaitReasons).To(ContainElement(HaveField("For", "a-operator")))
		_, err = coordination.Abandon(t.Context(), w.Store, "", system, "it is gone")
		w.Expect(err).NotTo(HaveOccurred())
		alone.reconcile()
		alone.reconcile()
		w.Expect(alone.done).To(Equal([]string{"c-1"}))
	})
}

// After writes with an unknown outcome the holder continues, and repeats no step.
func TestHolderContinuesAfterUnknownWrites(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"done": false, "not done": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(t *testing.T, w *fixture) {
				store := &unreliableStore{Store: w.Store}
				w.Store = store
				a := w.join("a", coordination.Restart, "a-1", "a-2", "a-3")
				a.plan = func(p coordination.Proposal) (steps []coordination.Step) {
					for _, id := range p.IDs() {
						steps = append(steps, coordination.Step{Do: "restart", Members: only(id)}) // carried out by the holder
					}
					return steps
				}
				for w.view().Intent == nil {
					a.reconcile()
				}
				lost := 0
				for range 20 { // every other response is lost
					store.done.Store(!refused)
					store.refused.Store(refused)
					if _, err := a.Reconcile(t.Context(), a.settings, a.system); err != nil {
						w.Expect(err).To(MatchError(errLost))
						lost++
					}
					store.done.Store(false)
					store.refused.Store(false)
					a.reconcile()
				}
				w.Expect(lost).To(BeNumerically(">", 0))
				w.Expect(a.done).To(Equal([]string{"a-1", "a-2", "a-3"}))
				w.Expect(w.lastDone().Failure).To(BeEmpty())
				w.Expect(w.view().DoneRecords).To(HaveLen(1))
			})
		})
	}
}

// blindSystem cannot observe its members.
type blindSystem struct{ *fakeSystem }

var errBlind = errors.New("the members cannot be reached")

func (blindSystem) Needs(context.Context, *coordination.View) (coordination.Needs, error) {
	return coordination.Needs{}, errBlind
}

// A holder that cannot continue releases the lock.
func TestHolderStepsDown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(a *participant)
		want  string
	}{
		"refused settings":   {func(a *participant) { a.settings.Policy.Missing = "Maybe" }, `Missing "Maybe" is unknown`},
		"a taken prefix":     {func(a *participant) { a.settings.Prefix = "b" }, "another participant has this prefix"},
		"needs are unknown":  {func(a *participant) { a.system = blindSystem{a.fakeSystem} }, errBlind.Error()},
		"needs of no action": {func(a *participant) { a.needs.Pending[0].Action = "no action" }, "needs an invalid action"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(t *testing.T, w *fixture) {
				a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
				b.reconcile()
				for w.view().Intent == nil {
					a.reconcile()
				}
				w.Expect(w.view().Lock.Holder).To(Equal("a-operator"))
				test.spoil(a)
				result, err := a.Reconcile(t.Context(), a.settings, a.system)
				w.Expect(err).To(MatchError(ContainSubstring(test.want)))
				w.Expect(result.Events).To(ContainElement(HaveField("Reason", "SteppedDown")))
				w.Expect(w.view().Lock).To(BeNil())
				b.reconcile()
				w.Expect(w.view().Intent.Holder).To(Equal("b-operator"))
			})
		})
	}
}

// A holder whose prefix change does not fit into a transaction releases the lock too.
func TestHolderWithTooManyEntriesStepsDown(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		b := w.join("b", coordination.Restart, "b-1")
		store := &interruptedStore{Store: w.Store}
		store.before = func(transaction kv.Transaction) error {
			if slices.ContainsFunc(transaction.Then, func(o kv.Operation) bool { return strings.Contains(o.Key, "/unicorn") }) {
				return kv.ErrTooLarge
			}
			return nil
		}
		w.Store = store
		a := w.join("a", coordination.Restart, "a-1")
		b.reconcile()
		for w.view().Intent == nil {
			a.reconcile()
		}
		a.settings = global("unicorn")
		_, err := a.Reconcile(t.Context(), a.settings, a.system)
		w.Expect(err).To(MatchError(kv.ErrTooLarge))
		w.Expect(w.view().Lock).To(BeNil())
		b.reconcile()
		w.Expect(w.view().Intent.Holder).To(Equal("b-operator"))
	})
}

// The transaction that withdraws an order fails if the order was accepted since the view was read.
func TestAcceptedOrderIsNotSkipped(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one, two := w.newCoordinator("dc1"), w.newCoordinator("dc2")
		w.declare(one, restart("dc1-a"))
		grant, err := two.Begin(t.Context(), w.decide(two), []coordination.Step{{Do: "restart", Members: only("dc1-a"), Order: true}})
		w.Expect(err).NotTo(HaveOccurred())
		before := w.view()
		w.Expect(one.Accept(t.Context(), one.Order(w.view(), "dc1-a"))).To(Succeed())
		w.Expect(grant.SkipMembers(t.Context(), w.view(), "it is late", only("dc1-a"), false)).To(MatchError(coordination.ErrAccepted))
		w.Expect(grant.SkipMembers(t.Context(), w.view(), "it is late", only("dc1-a"), true)).To(MatchError(coordination.ErrAccepted), "under the same token")
		w.Expect(grant.SkipMembers(t.Context(), before, "nobody has accepted it", only("dc1-a"), false)).To(MatchError(kv.ErrConflict), "it was accepted since")
		w.Expect(grant.Done(t.Context(), "it is late")).To(MatchError(coordination.ErrAccepted))
		w.Expect(w.view().Intent.StepIndex).To(BeZero())
	})
}

// A need from before the action does not end it, even if the member is only in a step that is planned later.
func TestReplanInLocalMode(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a := w.join("a", coordination.Restart, "a-1")
		a.settings.Mode = coordination.Local
		upgrades := []coordination.Need{{Action: upgrade, Member: "a-2"}} // not ready
		a.needs.Pending = append(a.needs.Pending, upgrades...)
		a.replan = func(intent *coordination.Intent) ([]coordination.Step, error) {
			a.healthy = coordination.NotYet("a-2 does not lead yet")
			return []coordination.Step{{Do: "lead", Members: only("a-2")}}, nil
		}
		a.system = replanningSystem{a.fakeSystem}
		a.execute = func(coordination.Task) error {
			a.needs.Pending = slices.Clone(upgrades)
			return nil
		}
		for range 6 {
			a.reconcile()
			a.needs.Pending = slices.Clone(upgrades)
		}
		w.Expect(a.lastResult.HoldsLock).To(BeTrue())
		w.Expect(a.done).To(Equal([]string{"a-1", "a-2"}))
	})
}
