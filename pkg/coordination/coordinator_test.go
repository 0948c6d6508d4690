package coordination_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func TestSets(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one, ten := w.newCoordinator("dc1"), w.newCoordinator("dc10")
		w.Expect(one.UpdatePendingForExclusion(t.Context(), coordination.Updates{"dc1-a": coordination.Add(), "dc1-b": coordination.Add()})).To(Succeed())
		w.Expect(one.UpdateReadyForExclusion(t.Context(), coordination.Updates{"dc1-a": coordination.Add("10.0.0.1:4500", "locality:a")})).To(Succeed())
		w.Expect(ten.UpdatePendingForExclusion(t.Context(), coordination.Updates{"dc10-a": coordination.Add()})).To(Succeed())

		ignoreVersion := cmpopts.IgnoreFields(coordination.Member{}, "Version")
		for name, test := range map[string]struct {
			get  func() (coordination.Members, error)
			want coordination.Members
		}{
			"all": {
				func() (coordination.Members, error) { return ten.GetPendingForExclusion(t.Context()) },
				coordination.Members{"dc1-a": {Prefix: "dc1"}, "dc1-b": {Prefix: "dc1"}, "dc10-a": {Prefix: "dc10"}},
			},
			"of one, whose prefix begins another one": {
				func() (coordination.Members, error) { return ten.GetPendingForExclusion(t.Context(), "dc1") },
				coordination.Members{"dc1-a": {Prefix: "dc1"}, "dc1-b": {Prefix: "dc1"}},
			},
			"with addresses": {
				func() (coordination.Members, error) { return ten.GetReadyForExclusion(t.Context()) },
				coordination.Members{"dc1-a": {Prefix: "dc1", Addresses: []string{"10.0.0.1:4500", "locality:a"}}},
			},
			"another set": {func() (coordination.Members, error) { return one.GetPendingForRemoval(t.Context()) }, nil},
		} {
			got, err := test.get()
			w.Expect(err).NotTo(HaveOccurred(), name)
			if diff := cmp.Diff(test.want, got, ignoreVersion, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}

		before := w.view().Revision
		w.Expect(one.UpdatePendingForExclusion(t.Context(), coordination.Updates{"dc1-a": coordination.Add()})).To(Succeed())
		w.Expect(w.view().Revision).To(Equal(before), "what is so already is not written")
		w.Expect(one.UpdatePendingForExclusion(t.Context(), coordination.Updates{"dc1-a": coordination.Remove(), "dc1-c": coordination.Add()})).To(Succeed())
		w.Expect(w.view().Sets[coordination.PendingForExclusion]).To(And(HaveKey(coordination.MemberID("dc1-c")), HaveLen(3)))
		w.Expect(w.content()).To(HaveKeyWithValue(coordination.DefaultRoot+"/store/readyForExclusion/dc1/dc1-a", "10.0.0.1:4500 locality:a"))
		w.Expect(w.view().Revision).To(BeNumerically(">", before))

		w.Expect(one.UpdatePendingForRemoval(t.Context(), coordination.Updates{"dc1/x": coordination.Add()})).To(MatchError(ContainSubstring("slash")))
		w.Expect(one.UpdatePendingForRemoval(t.Context(), coordination.Updates{"x": coordination.Add("a")})).To(MatchError(ContainSubstring("no addresses")))
	})
}

func TestLocalModeWritesNoEntries(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		c, err := coordination.New(coordination.Options{Store: w.Store, System: system, Name: "dc1-operator"})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(c.Configure(t.Context(), coordination.Settings{Prefix: "dc1", Generation: 3})).To(Succeed())
		w.Expect(c.UpdatePendingForRestart(t.Context(), coordination.Updates{"dc1-a": coordination.Add()})).To(Succeed())
		w.Expect(c.Declare(t.Context(), w.view(), restart("dc1-a"))).To(Succeed())
		w.Expect(c.GetPendingForRestart(t.Context())).To(BeEmpty())
		w.Expect(w.content()).To(BeEmpty())

		// Nor does it act for the others.
		other := w.newCoordinator("dc2")
		w.declare(other, restart("dc2-a"))
		before := w.content()
		verdict := w.decide(other)
		w.Expect(verdict.Open).To(BeTrue())
		w.Expect(w.decide(c).Open).To(BeFalse())
		_, err = c.Begin(t.Context(), verdict, nil)
		w.Expect(err).To(MatchError(coordination.ErrLocal))
		_, err = c.Resume(t.Context())
		w.Expect(err).To(MatchError(coordination.ErrLocal))
		w.Expect(c.Answer(t.Context(), &coordination.Order{}, "")).To(MatchError(coordination.ErrLocal))
		w.Expect(w.content()).To(Equal(before))
	})
}

// In local mode a participant has a session only while it holds the lock.
func TestLocalModeClosesIdleSession(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		ends := &sessionCountingStore{Store: w.Store}
		c := w.newCoordinator("dc1", func(o *coordination.Options) { o.Store = ends })
		w.Expect(ends.open()).To(Equal(1))
		w.Expect(c.Configure(t.Context(), coordination.Settings{})).To(Succeed())
		w.Expect(ends.open()).To(Equal(0))
		for range 2 {
			grant, err := c.Lock(t.Context())
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(ends.open()).To(Equal(1))
			w.Expect(grant.Release(t.Context())).To(Succeed())
			w.Expect(ends.open()).To(Equal(0))
		}
	})
}

func TestSwitchToLocal(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one, two := w.newCoordinator("dc1"), w.newCoordinator("dc2")
		w.declare(one, restart("dc1-a", "dc1-b"))
		w.declare(two, restart("dc2-a"))
		before := w.view()

		// The process that removes the entries may be another one than the process that wrote them.
		next, err := coordination.New(coordination.Options{Store: w.Store, System: system, Name: "dc1-operator"})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(next.Configure(t.Context(), coordination.Settings{Mode: coordination.Local})).To(MatchError(coordination.ErrOtherProcess))
		w.Expect(w.view().Revision).To(Equal(before.Revision), "the other one is alive, and would write it again")
		w.Expect(one.Close(t.Context())).To(Succeed())
		before = w.view()
		w.Expect(next.Configure(t.Context(), coordination.Settings{Mode: coordination.Local})).To(Succeed())
		w.Expect(w.view().Revision).To(Equal(before.Revision+1), "one transaction")
		w.Expect(w.view().Present("dc1")).To(BeFalse())
		w.Expect(w.view().Sets[coordination.PendingForRestart]).To(HaveLen(1))
		for key := range w.content() {
			w.Expect(key).NotTo(ContainSubstring("/dc1"))
		}
		w.Expect(w.view().Absent("dc1", "dc2")).To(Equal([]string{"dc1"}))

		grant, err := two.Lock(t.Context())
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(two.Configure(t.Context(), coordination.Settings{})).To(Succeed())
		w.Expect(w.view().Lock).To(BeNil(), "the holder gives the lock back when it leaves")
		w.Eventually(grant.Held, testTimeout).Should(BeFalse())
	})
}

func TestPrefixChange(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one, two := w.newCoordinator("dc1"), w.newCoordinator("dc2")
		w.declare(one, restart("dc1-a"))
		verdict := w.decide(two)
		grant, err := two.Begin(t.Context(), verdict, nil)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(grant.Done(t.Context(), "")).To(Succeed())
		w.Expect(one.UpdatePendingForExclusion(t.Context(), coordination.Updates{"dc1-b": coordination.Add()})).To(Succeed())
		w.Expect(one.UpdateReadyForExclusion(t.Context(), coordination.Updates{"dc1-b": coordination.Add("b")})).To(Succeed())
		before := w.view()

		w.Expect(one.Configure(t.Context(), global("dc2"))).To(MatchError(coordination.ErrPrefixTaken))
		w.Expect(one.Configure(t.Context(), global("unicorn"))).To(Succeed())
		after := w.view()
		w.Expect(after.Revision).To(Equal(before.Revision+1), "one transaction")
		w.Expect(after.Sets[coordination.ReadyForExclusion]["dc1-b"].Prefix).To(Equal("unicorn"))
		w.Expect(after.Sets[coordination.ReadyForExclusion]["dc1-b"].Addresses).To(Equal([]string{"b"}))
		w.Expect(after.Sets[coordination.PendingForExclusion]["dc1-b"].Prefix).To(Equal("unicorn"))
		w.Expect(after.Sets[coordination.PendingForRestart]).To(BeEmpty(), "what was done is not to be done again")
		for key := range w.content() {
			w.Expect(key).NotTo(ContainSubstring("/dc1/"))
		}
	})
}

// An action that is in progress when the prefix changes is done once.
func TestPrefixChangeDuringAction(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one, two := w.newCoordinator("dc1"), w.newCoordinator("dc2")
		w.declare(one, restart("dc1-a"))
		grant, err := two.Begin(t.Context(), w.decide(two), []coordination.Step{{Do: "restart", Members: only("dc1-a"), Order: true}})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(one.Configure(t.Context(), global("unicorn"))).To(Succeed())
		w.Expect(w.view().Sets[coordination.PendingForRestart]).To(HaveKey(coordination.MemberID("dc1-a")))
		w.carryOut(one, "dc1-a")
		w.Expect(grant.Advance(t.Context())).To(Succeed())
		w.Expect(grant.Done(t.Context(), "")).To(Succeed())
		w.Expect(w.decide(two).Open).To(BeFalse(), "its instance has not looked since")
		w.declare(one, restart("dc1-a"))
		w.Expect(w.decide(two).Open).To(BeTrue(), "it needs it nevertheless")
	})
}

// As large as a region can be: all entries move in one transaction.
func TestPrefixChangeWithManyEntries(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one := w.newCoordinator("dc1")
		const many = 55
		var ids []coordination.MemberID
		for i := range many {
			ids = append(ids, coordination.MemberID(fmt.Sprint("dc1-", i)))
		}
		w.declare(one, restart(ids...))
		w.Expect(one.Configure(t.Context(), global("unicorn"))).To(Succeed())
		w.Expect(one.GetReadyForRestart(t.Context(), "unicorn")).To(HaveLen(many))
		w.Expect(one.GetPendingForRestart(t.Context())).To(HaveLen(many))
	})
}

func TestQuietWindow(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one := w.newCoordinator("dc1")
		w.configure(one, "dc1", coordination.Policy{Quiet: time.Minute})
		// The clock of another machine has no effect.
		two := w.newCoordinator("dc2", func(o *coordination.Options) {
			o.Clock = testclock.NewFakePassiveClock(w.clock.Now().Add(-time.Hour))
		})
		w.declare(one, restart("dc1-a"))
		w.Expect(w.decide(one).RetryAfter).To(Equal(time.Minute))
		w.clock.SetTime(w.clock.Now().Add(50 * time.Second))
		w.Expect(w.decide(one).RetryAfter).To(Equal(10 * time.Second))
		w.declare(two, restart("dc2-a")) // within the window
		w.Expect(w.decide(one).RetryAfter).To(Equal(time.Minute))
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		verdict := w.decide(one)
		w.Expect(verdict.Open).To(BeTrue(), verdict.Summary())
		w.Expect(verdict.Members).To(HaveLen(2))
		w.Expect(w.decide(two).Open).To(BeFalse(), "its own window is shorter, and the longer one counts")
		w.Expect(w.view().PolicyConflict(coordination.Restart)).To(ContainSubstring("the more careful one applies"))
	})
}

func TestBeginFailsAfterChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *fixture, two *coordination.Coordinator) error{
		"one more": func(w *fixture, two *coordination.Coordinator) error {
			return two.Declare(w.t.Context(), w.view(), restart("dc2-a", "dc2-b"))
		},
		"withdrawn": func(w *fixture, two *coordination.Coordinator) error {
			return two.Declare(w.t.Context(), w.view(), nil)
		},
		"not ready any more": func(w *fixture, two *coordination.Coordinator) error {
			return two.UpdateReadyForRestart(w.t.Context(), coordination.Updates{"dc2-a": coordination.Remove()})
		},
		"gone local": func(w *fixture, two *coordination.Coordinator) error {
			return two.Configure(w.t.Context(), coordination.Settings{})
		},
		"under another prefix": func(w *fixture, two *coordination.Coordinator) error {
			return two.Configure(w.t.Context(), global("unicorn"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(t *testing.T, w *fixture) {
				one, two := w.newCoordinator("dc1"), w.newCoordinator("dc2")
				w.declare(one, restart("dc1-a"))
				w.declare(two, restart("dc2-a"))
				verdict := w.decide(one)
				w.Expect(verdict.Open).To(BeTrue(), verdict.Summary())
				w.Expect(change(w, two)).To(Succeed())
				_, err := one.Begin(t.Context(), verdict, nil)
				w.Expect(err).To(MatchError(kv.ErrConflict))
				w.Expect(w.view().Lock).To(BeNil())
				w.Expect(w.view().Intent).To(BeNil())
			})
		})
	}
}

// A participant that was dead and has returned is not left out.
func TestBeginFailsWhenLeftOutParticipantReturns(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one, two := w.newCoordinator("dc1"), w.newCoordinator("dc2")
		w.configure(one, "dc1", coordination.Policy{Missing: coordination.LeaveOut})
		w.configure(two, "dc2", coordination.Policy{Missing: coordination.LeaveOut})
		w.declare(one, restart("dc1-a"))
		w.declare(two, restart("dc2-a"))
		w.Expect(two.Close(t.Context())).To(Succeed())
		verdict := w.decide(one)
		w.Expect(verdict.LeftOut).To(HaveKey(coordination.MemberID("dc2-a")))
		w.Expect(two.Configure(t.Context(), global("dc2"))).To(Succeed())
		_, err := one.Begin(t.Context(), verdict, nil)
		w.Expect(err).To(MatchError(kv.ErrConflict))
		_, err = one.Begin(t.Context(), w.decide(one), nil)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.view().Intent.Members).To(HaveLen(2))
	})
}

// An action that was given up is retried after another quiet window.
func TestGivenUpActionIsRetried(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one, two := w.newCoordinator("dc1"), w.newCoordinator("dc2")
		w.configure(one, "dc1", coordination.Policy{Quiet: time.Minute})
		w.declare(one, restart("dc1-a"))
		w.Expect(w.decide(one).Open).To(BeFalse())
		w.Expect(w.decide(two).Open).To(BeFalse())
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		grant, err := one.Begin(t.Context(), w.decide(one), nil)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(grant.Done(t.Context(), "it does not work")).To(Succeed())
		w.Expect(w.decide(one).RetryAfter).To(Equal(time.Minute))
		w.Expect(w.decide(two).RetryAfter).To(Equal(time.Minute))
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		w.Expect(w.decide(two).Open).To(BeTrue())
	})
}

// A need that is forced counts as new.
func TestForcedNeedIsDoneAgain(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one := w.newCoordinator("dc1")
		add := func(update coordination.Update) {
			t.Helper()
			w.Expect(one.Update(t.Context(), map[coordination.Set]coordination.Updates{
				coordination.PendingForRestart: {"dc1-a": update}, coordination.ReadyForRestart: {"dc1-a": coordination.Add()},
			})).To(Succeed())
		}
		add(coordination.Add())
		grant, err := one.Begin(t.Context(), w.decide(one), nil)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(grant.Done(t.Context(), "")).To(Succeed())
		add(coordination.Add())
		w.Expect(w.decide(one).Open).To(BeFalse())
		add(coordination.AddForced())
		w.Expect(w.decide(one).Open).To(BeTrue())
	})
}

func TestActionIsDoneOnce(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one, two := w.newCoordinator("dc1"), w.newCoordinator("dc2")
		w.declare(one, restart("dc1-a"))
		w.declare(two, restart("dc2-a"))
		grant, err := one.Begin(t.Context(), w.decide(one), []coordination.Step{{Do: "restart", Members: only("dc1-a")}, {Do: "restart", Members: only("dc2-a"), Order: true}})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.decide(two).Open).To(BeFalse(), "somebody acts")
		var held *coordination.HeldError
		_, err = two.Resume(t.Context())
		w.Expect(errors.As(err, &held)).To(BeTrue(), "%v", err)

		w.Expect(two.Order(w.view(), "dc2-a")).To(BeNil(), "it is not its turn")
		w.Expect(grant.Advance(t.Context())).To(Succeed())
		w.Expect(one.Order(w.view(), "dc1-a")).To(BeNil(), "it is for another one")
		order := two.Order(w.view(), "dc2-a")
		w.Expect(order).NotTo(BeNil())
		w.Expect(order.Token).To(Equal(grant.Token))
		w.Expect(two.Answer(t.Context(), order, "")).To(MatchError(ContainSubstring("not accepted")))
		w.Expect(two.Accept(t.Context(), order)).To(Succeed())
		w.Expect(grant.CompletedAnswers(w.view())).To(BeEmpty())
		w.Expect(two.Answer(t.Context(), order, "")).To(Succeed())
		w.Expect(two.Order(w.view(), "dc2-a")).To(BeNil(), "it is answered")
		w.Expect(grant.CompletedAnswers(w.view())).To(HaveLen(1))
		w.Expect(grant.Advance(t.Context())).To(Succeed())
		w.Expect(grant.Step()).To(BeNil())
		before := w.view()
		w.Expect(grant.Done(t.Context(), "")).To(Succeed())
		w.Expect(w.view().Lock).To(BeNil())
		w.Expect(w.view().DoneRecords).To(HaveLen(1))

		w.Expect(w.decide(two).Members).To(BeEmpty(), "the entries are there, but done")
		w.Expect(one.Declare(t.Context(), before, restart("dc1-a"))).To(Succeed())
		w.Expect(w.decide(two).Members).To(BeEmpty(), "what it wanted before it could see that it was done")
		w.declare(one, restart("dc1-a"))
		w.Expect(w.decide(two).Members).To(HaveLen(1), "it wants it again")
		w.declare(two, nil)
		w.Expect(w.view().Answers).To(BeEmpty())
	})
}

func TestDeadParticipantBlocksUntilForgotten(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one, two := w.newCoordinator("dc1"), w.newCoordinator("dc2")
		_, err := two.Resume(t.Context())
		w.Expect(err).To(MatchError(coordination.ErrNothingToResume))
		w.declare(one, restart("dc1-a"))
		grant, err := one.Begin(t.Context(), w.decide(one), []coordination.Step{{Do: "first", Members: only("dc1-a")}, {Do: "second", Members: only("dc1-a")}, {Do: "third", Members: only("dc1-a")}})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(grant.Advance(t.Context())).To(Succeed())
		w.Expect(one.Close(t.Context())).To(Succeed()) // as when its process dies and the session expires
		resumed, err := two.Resume(t.Context())
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(resumed.Token).To(BeNumerically(">", grant.Token))
		w.Expect(resumed.Step().Do).To(Equal("second"))
		w.Expect(resumed.Intent().ID).To(Equal(grant.Token))

		w.Expect(grant.Advance(t.Context())).To(MatchError(coordination.ErrFenced))
		w.Expect(grant.Done(t.Context(), "")).To(MatchError(coordination.ErrFenced))
		w.Eventually(grant.Held, testTimeout).Should(BeFalse())
		w.Expect(resumed.Advance(t.Context(), coordination.Step{Do: "other", Members: only("dc1-a")})).To(Succeed())
		w.Expect(resumed.Step().Do).To(Equal("other"))
		w.Expect(resumed.Done(t.Context(), "it does not work")).To(Succeed())
		w.Expect(w.view().DoneRecords[0].Failure).To(Equal("it does not work"))
		w.Expect(w.view().Pending(coordination.Restart)).To(HaveLen(1), "it was given up, and is still wanted")
	})
}

func TestDeniedParticipantCannotHoldLock(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one, two := w.newCoordinator("dc1"), w.newCoordinator("dc2")
		grant, err := one.Lock(t.Context())
		w.Expect(err).NotTo(HaveOccurred())
		denying := global("dc2")
		denying.Denied = []string{"dc1-operator", "dc1-operator"}
		w.Expect(two.Configure(t.Context(), denying)).To(Succeed())
		taken, err := two.Lock(t.Context())
		w.Expect(err).NotTo(HaveOccurred(), "the holder is denied")
		w.Expect(taken.Token).To(BeNumerically(">", grant.Token))
		w.Eventually(grant.Held, testTimeout).Should(BeFalse())
		w.Expect(taken.Release(t.Context())).To(Succeed())
		_, err = one.Lock(t.Context())
		w.Expect(err).To(MatchError(coordination.ErrDenied))
		w.Expect(two.Configure(t.Context(), global("dc2"))).To(Succeed())
		_, err = one.Lock(t.Context())
		w.Expect(err).NotTo(HaveOccurred())
	})
}

func TestForgetRemovesAllEntries(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one, two := w.newCoordinator("dc1"), w.newCoordinator("dc2")
		w.declare(one, restart("dc1-a"))
		w.declare(two, restart("dc2-a"))
		forget := func() error { return coordination.Forget(t.Context(), w.Store, "", system, "dc2") }
		w.Expect(forget()).To(MatchError(coordination.ErrAlive))
		verdict := w.decide(one)
		w.Expect(two.Close(t.Context())).To(Succeed())
		w.Expect(forget()).To(Succeed())
		w.Expect(w.view().Sets[coordination.PendingForRestart]).To(HaveLen(1))
		_, err := one.Begin(t.Context(), verdict, nil)
		w.Expect(err).To(MatchError(kv.ErrConflict), "it was decided with entries that are gone")
	})
}
