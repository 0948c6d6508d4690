package coordination_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// unavailableStore is a store that can be made unavailable.
type unavailableStore struct {
	kv.Store
	unavailable atomic.Bool
}

func (d *unavailableStore) Read(ctx context.Context, paths ...string) (*kv.Snapshot, error) {
	if d.unavailable.Load() {
		return nil, errLost
	}
	return d.Store.Read(ctx, paths...)
}

func (d *unavailableStore) Commit(ctx context.Context, transaction kv.Transaction) (int64, error) {
	if d.unavailable.Load() {
		return 0, errLost
	}
	return d.Store.Commit(ctx, transaction)
}

// TestNoActionWithoutStore checks both modes: the lock is in the store too.
func TestNoActionWithoutStore(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]coordination.Mode{"global": coordination.Global, "local": coordination.Local} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(t *testing.T, w *fixture) {
				store := &unavailableStore{Store: w.Store}
				w.Store = store
				a := w.join("a", coordination.Restart, "a-1")
				a.settings.Mode = mode
				store.unavailable.Store(true)
				for range 4 {
					_, err := a.Reconcile(t.Context(), a.settings, a.system)
					w.Expect(err).To(MatchError(errLost))
				}
				w.Expect(a.done).To(BeEmpty())
				store.unavailable.Store(false)
				reconcileRounds(a)
				w.Expect(a.done).To(Equal([]string{"a-1"}))
			})
		})
	}
}

// TestErrorsIncreaseRequeueAfter increases Result.RequeueAfter with each consecutive error, up to the value
// without an error.
func TestErrorsIncreaseRequeueAfter(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		store := &unavailableStore{Store: w.Store}
		w.Store = store
		a := w.join("a", coordination.Restart, "a-1")
		for range 2 { // a success resets the delay
			store.unavailable.Store(true)
			var after []time.Duration
			for range 12 {
				result, err := a.Reconcile(t.Context(), a.settings, a.system)
				w.Expect(err).To(MatchError(errLost))
				after = append(after, result.RequeueAfter)
			}
			w.Expect(slices.IsSorted(after)).To(BeTrue(), "%v", after)
			w.Expect(after[0]).To(BeNumerically("<", time.Second))
			w.Expect(after[len(after)-1]).To(Equal(coordination.DefaultRequeueAfter))
			store.unavailable.Store(false)
			reconcileRounds(a)
		}
	})
}

// TestAnotherStoreDuringOutage repairs the system of a participant in local mode with another store, and then
// returns to the first store.
func TestAnotherStoreDuringOutage(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		var newestToken int64 // the highest token that the system has seen: it refuses lower ones
		var tokens []int64
		fences := func(task coordination.Task) error {
			if task.Token < newestToken {
				return coordination.Fenced(newestToken)
			}
			newestToken = task.Token
			tokens = append(tokens, task.Token)
			return nil
		}
		a := w.join("a", coordination.Restart, "a-1")
		a.execute = fences
		for range 3 { // several actions, so that the tokens differ
			reconcileRounds(a)
			a.needs.Pending = []coordination.Need{{Action: coordination.Restart, Member: "a-1", Ready: true}}
		}
		before := newestToken
		w.Expect(before).To(BeNumerically(">", 1))

		// The store is down together with the system. An administrator starts the participant in local mode with its
		// own store.
		alone := newFixture(t, inKubernetes(t))
		repairs := alone.join("a", coordination.Restart, "a-1")
		repairs.settings.Mode, repairs.execute = coordination.Local, fences
		reconcileRounds(repairs)
		w.Expect(repairs.done).To(Equal([]string{"a-1"}))
		w.Expect(newestToken).To(BeNumerically(">", before), "what another one still does under an older token is refused")
		w.Expect(alone.view().Lock).To(BeNil())

		// The store is available again, and the others return.
		last := newestToken // tokens of two stores can be equal: the first process has ended before
		back, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart)
		back.execute = fences
		reconcileRounds(back, b)
		w.Expect(back.done).To(Equal([]string{"a-1"}))
		w.Expect(newestToken).To(BeNumerically(">=", last))
		w.Expect(w.lastDone().Failure).To(BeEmpty())
		w.Expect(tokens).To(HaveLen(5))
	})
}
