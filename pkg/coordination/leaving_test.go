package coordination_test

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// The tests of this file are about a participant that leaves although the store differs from what the process
// remembers.

// A registration that was written despite an error does not count as another process.
func TestLeaveAfterALostRegistration(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(p *participant){
		"local mode": func(p *participant) {
			p.settings = coordination.Settings{}
			p.reconcile()
			p.f.Expect(p.lastResult.WaitReasons).To(BeEmpty())
		},
		"deleted": func(p *participant) { p.f.Expect(p.Leave(p.f.t.Context(), p.system)).To(Succeed()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(t *testing.T, w *fixture) {
				store := &unreliableStore{Store: w.Store}
				w.Store = store
				a := w.join("a", coordination.Restart)
				store.done.Store(true)
				_, err := a.Reconcile(t.Context(), a.settings, a.system)
				w.Expect(err).To(MatchError(errLost))
				store.done.Store(false)
				w.Expect(w.view().Present("a")).To(BeTrue(), "it was written")
				leave(a)
				w.Expect(w.view().Present("a")).To(BeFalse())
				w.Expect(w.below("a")).To(BeEmpty())
			})
		})
	}
}

// It does not count as the newest process either.
func TestLostRegistrationCountsAsOlder(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		store := &unreliableStore{Store: w.Store}
		w.Store = store
		older := w.join("a", coordination.Restart)
		store.done.Store(true)
		_, err := older.Reconcile(t.Context(), older.settings, older.system)
		w.Expect(err).To(MatchError(errLost))
		store.done.Store(false)
		newer := older.next(older.settings)
		newer.reconcile()
		w.Expect(older.reconcile().Superseded).To(BeTrue())
		w.Expect(newer.reconcile().Superseded).To(BeFalse())
		for _, p := range []*participant{newer, older, newer, older} {
			p.settings = coordination.Settings{}
			p.reconcile()
		}
		w.Expect(w.below("a")).To(BeEmpty())
	})
}

// A process in local mode reads the store again when its participant is deleted.
func TestLeaveReadsTheStore(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]bool{"at rest": false, "in the middle of an action": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(t *testing.T, w *fixture) {
				a := w.join("a", coordination.Restart, "a-1")
				another := a.next(a.settings)
				a.settings = coordination.Settings{}
				a.execute = func(coordination.Task) error { return coordination.NotYet("it takes a while") }
				if !busy {
					a.needs.Pending = nil
				}
				a.reconcile()
				another.reconcile()
				w.Expect(another.Close(t.Context())).To(Succeed()) // its entries stay
				w.Expect(w.below("a")).NotTo(BeEmpty())
				w.Expect(a.Leave(t.Context(), a.system)).To(Succeed())
				w.Expect(w.below("a")).To(BeEmpty())
				w.Expect(w.view().Lock).To(BeNil())
			})
		})
	}
}

// A holder that is deleted releases the lock even while an older process of its participant is alive.
func TestLeaveReleasesLockWhileOlderProcessLives(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		older, other := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart)
		older.reconcile()
		other.settings.Denied = []string{"b-operator"}
		other.reconcile()
		newer := older.next(older.settings)
		newer.execute = func(coordination.Task) error { return coordination.NotYet("it takes a while") }
		newer.plan = func(coordination.Proposal) []coordination.Step {
			return []coordination.Step{{Do: "look"}} // carried out by the holder
		}
		for w.view().Lock == nil {
			newer.reconcile()
		}
		w.Expect(newer.lastResult.HoldsLock).To(BeTrue())
		w.Expect(newer.Leave(t.Context(), newer.system)).To(MatchError(coordination.ErrOtherProcess))
		w.Expect(w.view().Lock).To(BeNil())
	})
}

// A participant whose entries were removed declares them again.
func TestForgottenParticipantReturns(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a := w.join("a", coordination.Restart, "a-1")
		a.needs.Pending[0].Ready = false
		a.reconcile()
		_, err := w.Commit(t.Context(), kv.Transaction{Then: []kv.Operation{
			kv.Delete(coordination.DefaultRoot + "/" + system + "/participants/a"),
		}})
		w.Expect(err).NotTo(HaveOccurred())
		a.needs.Pending[0].Ready = true
		reconcileRounds(a)
		w.Expect(w.view().Participants).To(HaveLen(1))
		w.Expect(a.done).To(Equal([]string{"a-1"}))
	})
}

// interruptedStore is a store that calls a function before a write, or instead of it.
type interruptedStore struct {
	kv.Store
	before func(kv.Transaction) error
}

func (i *interruptedStore) Commit(ctx context.Context, transaction kv.Transaction) (int64, error) {
	if err := i.before(transaction); err != nil {
		return 0, err
	}
	return i.Store.Commit(ctx, transaction)
}

// A step with Together does not begin if a participant that has accepted it leaves at the same moment.
func TestLeaveBeforeTogetherStarts(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a := w.join("a", coordination.Restart, "a-1")
		store := &interruptedStore{Store: w.Store}
		left := false
		store.before = func(transaction kv.Transaction) error {
			for _, operation := range transaction.Then {
				if strings.HasSuffix(operation.Key, "/intent") && strings.Contains(operation.Value, `"go":true`) && !left {
					left = true
					w.Expect(a.Leave(t.Context(), a.system)).To(Succeed())
				}
			}
			return nil
		}
		w.Store = store
		b := w.join("b", coordination.Restart, "b-1")
		b.plan = planTogether
		a.settings.Denied = []string{"a-operator"} // so that b is the holder
		for !left {
			a.reconcile()
			b.reconcile()
		}
		for len(w.view().DoneRecords) == 0 {
			b.reconcile()
		}
		w.Expect(b.done).To(BeEmpty())
		w.Expect(w.view().DoneRecords).To(ContainElement(HaveField("Failure", ContainSubstring("a-1"))))
	})
}
