package coordination_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// manyMembers is the number of members, more than one transaction of etcd can change.
const manyMembers = 150

func membersOf(prefix string, count int) (all []coordination.MemberID) {
	for n := range count {
		all = append(all, coordination.MemberID(fmt.Sprintf("%s-%03d", prefix, n)))
	}
	return all
}

// planTogether plans one step for all members.
func planTogether(proposal coordination.Proposal) []coordination.Step {
	return []coordination.Step{{Do: "restart", Members: proposal.IDs(), Order: true, Together: true}}
}

// TestManyMembers restarts all members of a large region in one step, each part by its own operator.
func TestManyMembers(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a, b := w.join("a", coordination.Restart, membersOf("a", manyMembers)...), w.join("b", coordination.Restart, "b-1")
		a.plan, b.plan = planTogether, planTogether
		b.reconcile()
		a.reconcile()
		w.Expect(w.view().Sets[coordination.ReadyForRestart]).To(HaveLen(manyMembers + 1))
		w.Expect(w.view().Incomplete()).To(BeEmpty())
		reconcileRounds(a, b)
		w.Expect(a.done).To(HaveLen(manyMembers))
		w.Expect(b.done).To(Equal([]string{"b-1"}))
		done := w.lastDone()
		w.Expect(done.Failure).To(BeEmpty())
		w.Expect(done.Members).To(HaveLen(manyMembers + 1))
		w.Expect(w.view().Sets[coordination.PendingForRestart]).To(BeEmpty())
		w.Expect(w.view().Answers).To(BeEmpty())
	})
}

// failingStore is a store that fails after a number of commits, as if the process had died.
type failingStore struct {
	kv.Store
	left atomic.Int64
}

func (d *failingStore) Commit(ctx context.Context, transaction kv.Transaction) (int64, error) {
	if d.left.Add(-1) < 0 {
		return 0, errLost
	}
	return d.Store.Commit(ctx, transaction)
}

// TestCrashBetweenParts ends a process in the middle of a declaration.
func TestCrashBetweenParts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy coordination.Policy
		done   int // members of b that are done before a returns
	}{
		"waited for": {coordination.Policy{}, 0},
		"left out":   {coordination.Policy{Missing: coordination.LeaveOut}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(t *testing.T, w *fixture) {
				a, b := w.join("a", coordination.Restart, membersOf("a", manyMembers)...), w.join("b", coordination.Restart, "b-1")
				a.settings.Policy, b.settings.Policy = test.policy, test.policy
				a.plan, b.plan = planTogether, planTogether
				store := &failingStore{Store: w.Store}
				first, err := coordination.New(coordination.Options{
					Store: store, System: system, Name: "a-operator", Clock: w.clock, SessionDuration: duration,
					Actions: []coordination.Action{coordination.Restart},
				})
				w.Expect(err).NotTo(HaveOccurred())
				const untilSecondPart = 2 // the registration and the first part
				store.left.Store(untilSecondPart)
				_, err = first.Reconcile(t.Context(), a.settings, a.system)
				w.Expect(err).To(MatchError(errLost))
				w.Expect(w.view().Incomplete()).To(Equal([]string{"a"}))
				b.reconcile()
				b.reconcile()
				w.Expect(b.done).To(BeEmpty())
				w.Expect(b.lastResult.WaitReasons).To(ContainElement(And(HaveField("For", "a"), HaveField("Reason", ContainSubstring("its declaration is incomplete")))))

				w.Expect(first.Close(t.Context())).To(Succeed())
				for range 4 {
					b.reconcile()
				}
				w.Expect(b.done).To(HaveLen(test.done))
				reconcileRounds(a, b) // the next process completes the declaration
				w.Expect(w.view().Incomplete()).To(BeEmpty())
				w.Expect(a.done).To(ContainElements("a-000", fmt.Sprintf("a-%03d", manyMembers-1)))
				w.Expect(b.done).To(Equal([]string{"b-1"}))
			})
		})
	}
}

// fill writes entries until the given part of a ConfigMap is free.
func (w *fixture) fill(percent int) {
	w.t.Helper()
	const limit = 1 << 20
	_, err := w.Commit(w.t.Context(), kv.Transaction{Then: []kv.Operation{
		kv.Put("/ballast", strings.Repeat("x", limit*(100-percent)/100)),
	}})
	w.Expect(err).NotTo(HaveOccurred())
}

// TestFullStoreAcceptsEndOfAction fills the store during an action.
func TestFullStoreAcceptsEndOfAction(t *testing.T) {
	t.Parallel()
	w := newFixture(t, inKubernetes(t))
	a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
	b.reconcile()
	for range 3 {
		a.reconcile()
	}
	w.Expect(a.lastResult.HoldsLock).To(BeTrue())
	w.fill(10)
	a.needs.Pending = append(a.needs.Pending, coordination.Need{Action: upgrade, Member: "a-1", Ready: true})
	refused := 0
	for range 12 {
		for _, p := range []*participant{a, b} {
			if _, err := p.Reconcile(t.Context(), p.settings, p.system); err != nil {
				w.Expect(err).To(MatchError(kv.ErrTooLarge))
				w.Expect(err).To(MatchError(ContainSubstring("ringmaster coordination status")))
				refused++
			}
		}
	}
	w.Expect(refused).To(BeNumerically(">", 0), "nothing is asked for any more")
	w.Expect(a.done).To(Equal([]string{"a-1"}))
	w.Expect(b.done).To(Equal([]string{"b-1"}))
	done := w.lastDone()
	w.Expect(done.Failure).To(BeEmpty())
	w.Expect(w.view().Sets[coordination.PendingForRestart]).To(BeEmpty(), "what is taken back is written")
	w.Expect(w.view().Incomplete()).To(ConsistOf("a"), "it still needs something")

	_, err := w.Commit(t.Context(), kv.Transaction{Then: []kv.Operation{kv.Delete("/ballast")}})
	w.Expect(err).NotTo(HaveOccurred())
	reconcileRounds(a, b)
	w.Expect(w.view().Incomplete()).To(BeEmpty())
	w.Expect(w.lastDone().Action).To(Equal(upgrade))
}

// TestFullStoreRefusesNewIntent leaves less space than an intent and its answers may need.
func TestFullStoreRefusesNewIntent(t *testing.T) {
	t.Parallel()
	w := newFixture(t, inKubernetes(t))
	one := w.newCoordinator("dc1")
	w.declare(one, restart("dc1-a"))
	w.fill(40)
	_, err := one.Begin(t.Context(), w.decide(one), []coordination.Step{{Do: "restart", Members: only("dc1-a"), Order: true}})
	w.Expect(err).To(MatchError(kv.ErrTooLarge))
	w.Expect(w.view().Lock).To(BeNil())
}

// TestDoneRecordsAreBoundedBySize keeps only a few records of large actions.
func TestDoneRecordsAreBoundedBySize(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one := w.newCoordinator("dc1")
		const actions, large = 8, 20 << 10
		for range actions {
			w.declare(one, restart("dc1-a"))
			grant, err := one.Begin(t.Context(), w.decide(one), []coordination.Step{{Do: "check", With: map[string]string{"why": strings.Repeat("x", large)}}})
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(grant.Done(t.Context(), "")).To(Succeed())
			w.declare(one, coordination.WantedEntries{})
		}
		kept := w.view().DoneRecords
		w.Expect(kept).To(HaveLen(3))
		w.Expect(slices.IsSortedFunc(kept, func(a, b coordination.DoneRecord) int { return int(b.Token - a.Token) })).To(BeTrue())
		w.Expect(kept[0].Token).To(BeEquivalentTo(actions), "the newest ones are kept")
	})
}
