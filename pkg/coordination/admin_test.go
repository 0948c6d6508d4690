package coordination_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func (w *fixture) abandon() error {
	_, err := coordination.Abandon(w.t.Context(), w.Store, "", system, "dc1 hangs")
	return err
}

func (w *fixture) breakLock() error {
	_, err := coordination.BreakLock(w.t.Context(), w.Store, "", system)
	return err
}

// hangingDatabase returns a holder that does not notice any change, with an order to dc2 that was accepted and not
// answered.
func (w *fixture) hangingHolder() (one, two *coordination.Coordinator, grant *coordination.Grant, order *coordination.Order) {
	w.t.Helper()
	one, two = w.newCoordinator("dc1", func(o *coordination.Options) { o.Store = watchlessStore{w.Store} }), w.newCoordinator("dc2")
	w.declare(one, restart("dc1-a"))
	w.declare(two, restart("dc2-a"))
	grant, err := one.Begin(w.t.Context(), w.decide(one), []coordination.Step{
		{Do: "restart", Members: only("dc2-a"), Order: true}, {Do: "restart", Members: only("dc1-a"), Order: true},
	})
	w.Expect(err).NotTo(HaveOccurred())
	order = two.Order(w.view(), "dc2-a")
	w.Expect(two.Accept(w.t.Context(), order)).To(Succeed())
	return one, two, grant, order
}

func TestAbandon(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		w.Expect(w.abandon()).To(MatchError(coordination.ErrNoIntent))
		_, two, grant, order := w.hangingHolder()
		_, err := coordination.Abandon(t.Context(), w.Store, "", system, "")
		w.Expect(err).To(MatchError(ContainSubstring("the reason is empty")))
		done, err := coordination.Abandon(t.Context(), w.Store, "", system, "dc1 hangs")
		w.Expect(err).NotTo(HaveOccurred())
		view := w.view()
		w.Expect(view.Lock).To(BeNil())
		w.Expect(view.Intent).To(BeNil())
		w.Expect(view.DoneRecords).To(HaveExactElements(*done))
		w.Expect(done.Failure).To(Equal("abandoned by a person: dc1 hangs"))
		w.Expect(view.Pending(coordination.Restart)).To(HaveLen(2), "it is asked for again")
		w.Expect(view.Token).To(Equal(grant.Token), "the next one is higher")
		w.Expect(grant.Advance(t.Context())).To(MatchError(coordination.ErrFenced))
		w.Expect(w.abandon()).To(MatchError(coordination.ErrNoIntent))

		// The accepted order may still be carried out, but its answer does not count for a later order for the same
		// member.
		w.Expect(w.decide(two).Open).To(BeFalse(), "what was given up is tried again after a while")
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		next, err := two.Begin(t.Context(), w.decide(two), []coordination.Step{{Do: "restart", Members: only("dc2-a"), Order: true}})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(next.Token).To(BeNumerically(">", grant.Token))
		w.Expect(two.Answer(t.Context(), order, "")).To(Succeed())
		w.Expect(next.CompletedAnswers(w.view())).To(BeEmpty())
		w.Expect(w.view().Accepted("dc2-a")).To(BeFalse())
		again := two.Order(w.view(), "dc2-a")
		w.Expect(again).NotTo(BeNil())
		w.Expect(two.Accept(t.Context(), again)).To(Succeed())
		w.Expect(two.Answer(t.Context(), order, "")).To(MatchError(kv.ErrConflict), "the newer order was accepted")
		w.Expect(two.Answer(t.Context(), again, "")).To(Succeed())
		w.Expect(next.CompletedAnswers(w.view())).To(HaveLen(1))
	})
}

// TestAbandonLeavesAnotherLock abandons the intent of a former holder while a participant holds the lock for
// another action.
func TestAbandonLeavesAnotherLock(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one, _, _, _ := w.hangingHolder()
		w.Expect(one.Close(t.Context())).To(Succeed())
		alone, err := coordination.New(coordination.Options{Store: w.Store, System: system, Name: "local-operator", SessionDuration: duration})
		w.Expect(err).NotTo(HaveOccurred())
		grant, err := alone.Lock(t.Context())
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.abandon()).To(Succeed())
		w.Expect(w.view().Intent).To(BeNil())
		w.Expect(w.view().Lock).NotTo(BeNil(), "another participant has it")
		w.Expect(w.view().Lock.Token).To(Equal(grant.Token))
		w.Expect(grant.Release(t.Context())).To(Succeed())
	})
}

// TestForgetLeavesAcceptedOrders does not forget a participant that has accepted an order and hangs, until
// Abandon ends the order.
func TestForgetLeavesAcceptedOrders(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		_, two, _, _ := w.hangingHolder()
		w.Expect(two.Close(t.Context())).To(Succeed())
		forget := func() error { return coordination.Forget(t.Context(), w.Store, "", system, "dc2") }
		w.Expect(forget()).To(MatchError(coordination.ErrAccepted))
		w.Expect(w.view().Accepted("dc2-a")).To(BeTrue())
		w.Expect(w.abandon()).To(Succeed())
		w.Expect(forget()).To(Succeed())
	})
}

func TestBreakLock(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		w.Expect(w.breakLock()).To(MatchError(coordination.ErrNoLock))
		_, two, grant, _ := w.hangingHolder()
		broken, err := coordination.BreakLock(t.Context(), w.Store, "", system)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(broken.Holder).To(Equal("dc1-operator"))
		w.Expect(w.view().Lock).To(BeNil())
		w.Expect(w.view().Intent).NotTo(BeNil())
		w.Expect(w.view().Accepted("dc2-a")).To(BeTrue(), "the order stands")
		w.Expect(w.breakLock()).To(MatchError(coordination.ErrNoLock))
		resumed, err := two.Resume(t.Context())
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(resumed.Token).To(BeNumerically(">", grant.Token))
		w.Expect(grant.Advance(t.Context())).To(MatchError(coordination.ErrFenced))
		w.Expect(w.view().Intent.StepIndex).To(BeZero())
	})
}

// TestHangingHolderIsFenced checks each write of a holder that does not notice that its lock was removed.
func TestHangingHolderIsFenced(t *testing.T) {
	t.Parallel()
	for removed, remove := range map[string]func(*fixture) error{"abandoned": (*fixture).abandon, "broken": (*fixture).breakLock} {
		for name, act := range map[string]func(ctx context.Context, w *fixture, grant *coordination.Grant) error{
			"advance": func(ctx context.Context, _ *fixture, g *coordination.Grant) error { return g.Advance(ctx) },
			"go": func(ctx context.Context, w *fixture, g *coordination.Grant) error {
				return g.StartTogether(ctx, w.view())
			},
			"raise":   func(ctx context.Context, _ *fixture, g *coordination.Grant) error { return g.RaiseToken(ctx, 0) },
			"give up": func(ctx context.Context, _ *fixture, g *coordination.Grant) error { return g.Done(ctx, "not needed") },
			"skip": func(ctx context.Context, w *fixture, g *coordination.Grant) error {
				return g.SkipMembers(ctx, w.view(), "not needed", only("dc1-a"), false)
			},
		} {
			t.Run(removed+"/"+name, func(t *testing.T) {
				t.Parallel()
				onAllStores(t, func(t *testing.T, w *fixture) {
					_, _, grant, _ := w.hangingHolder()
					w.Expect(remove(w)).To(Succeed())
					before := w.content()
					w.Expect(grant.Held()).To(BeTrue(), "it has noticed nothing")
					w.Expect(act(t.Context(), w, grant)).To(MatchError(coordination.ErrFenced))
					w.Expect(grant.Held()).To(BeFalse())
					w.Expect(w.content()).To(Equal(before))
				})
			})
		}
	}
}

// TestReconcileNoticesLostLock breaks the lock of a participant whose watch sends no signals.
func TestReconcileNoticesLostLock(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		remove func(*fixture) error
		events []string
	}{
		"abandoned": {(*fixture).abandon, []string{"LockLost", "Began"}},
		"broken":    {(*fixture).breakLock, []string{"LockLost", "Resumed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(t *testing.T, w *fixture) {
				a := w.join("a", coordination.Restart, "a-1")
				deafened, err := coordination.New(coordination.Options{
					Store: watchlessStore{w.Store}, System: system, Name: "a-operator", Clock: w.clock, SessionDuration: duration,
					Actions: []coordination.Action{coordination.Restart},
				})
				w.Expect(err).NotTo(HaveOccurred())
				a.Coordinator = deafened
				a.plan = func(coordination.Proposal) []coordination.Step {
					return []coordination.Step{{Do: "check", Members: only("a-1")}}
				}
				var tokens []int64
				a.execute = func(task coordination.Task) error {
					tokens = append(tokens, task.Token)
					return coordination.NotYet("it takes a while")
				}
				for range 4 {
					a.reconcile()
				}
				w.Expect(a.lastResult.HoldsLock).To(BeTrue())
				last := tokens[len(tokens)-1]
				w.Expect(test.remove(w)).To(Succeed())
				var events []string
				for range 4 {
					for _, event := range a.reconcile().Events {
						events = append(events, event.Reason)
					}
					w.clock.SetTime(w.clock.Now().Add(time.Second)) // an action that was given up is retried after a backoff
				}
				w.Expect(events).To(Equal(test.events))
				w.Expect(tokens[len(tokens)-1]).To(BeNumerically(">", last))
			})
		})
	}
}
