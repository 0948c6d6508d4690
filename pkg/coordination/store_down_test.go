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

// down is a store that cannot be reached while it is told so.
type down struct {
	kv.Store
	is atomic.Bool
}

func (d *down) Read(ctx context.Context, paths ...string) (*kv.Snapshot, error) {
	if d.is.Load() {
		return nil, errLost
	}
	return d.Store.Read(ctx, paths...)
}

func (d *down) Commit(ctx context.Context, transaction kv.Transaction) (int64, error) {
	if d.is.Load() {
		return 0, errLost
	}
	return d.Store.Commit(ctx, transaction)
}

// TestNothingIsDoneWithoutTheStore holds for both modes: the lock is in the store too.
func TestNothingIsDoneWithoutTheStore(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]coordination.Mode{"global": coordination.Global, "local": coordination.Local} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, w *world) {
				store := &down{Store: w.Store}
				w.Store = store
				a := w.joins("a", coordination.Restart, "a-1")
				a.settings.Mode = mode
				store.is.Store(true)
				for range 4 {
					_, err := a.Reconcile(t.Context(), a.settings, a.system)
					w.Expect(err).To(MatchError(errLost))
				}
				w.Expect(a.done).To(BeEmpty())
				store.is.Store(false)
				rounds(a)
				w.Expect(a.done).To(Equal([]string{"a-1"}))
			})
		})
	}
}

// TestErrorsAreRetriedLessOften increases Result.RequeueAfter with each error in a row, and no further than without an error.
func TestErrorsAreRetriedLessOften(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		store := &down{Store: w.Store}
		w.Store = store
		a := w.joins("a", coordination.Restart, "a-1")
		for range 2 { // a success begins from the first one again
			store.is.Store(true)
			var after []time.Duration
			for range 12 {
				result, err := a.Reconcile(t.Context(), a.settings, a.system)
				w.Expect(err).To(MatchError(errLost))
				after = append(after, result.RequeueAfter)
			}
			w.Expect(slices.IsSorted(after)).To(BeTrue(), "%v", after)
			w.Expect(after[0]).To(BeNumerically("<", time.Second))
			w.Expect(after[len(after)-1]).To(Equal(coordination.DefaultRequeueAfter))
			store.is.Store(false)
			rounds(a)
		}
	})
}

// TestAnotherStoreWhileOneIsDown repairs the system of a participant in local mode with a store of its own, and goes back.
func TestAnotherStoreWhileOneIsDown(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		var seen int64 // the newest token that the system has seen: it refuses older ones
		var tokens []int64
		fences := func(task coordination.Task) error {
			if task.Token < seen {
				return coordination.Fenced(seen)
			}
			seen = task.Token
			tokens = append(tokens, task.Token)
			return nil
		}
		a := w.joins("a", coordination.Restart, "a-1")
		a.execute = fences
		for range 3 { // some actions, so that the tokens differ
			rounds(a)
			a.needs.Pending = []coordination.Need{{Action: coordination.Restart, Member: "a-1", Ready: true}}
		}
		before := seen
		w.Expect(before).To(BeNumerically(">", 1))

		// Its store is gone with the system. A person starts it in local mode, with a store of its own.
		alone := newWorld(t, inKubernetes(t))
		repairs := alone.joins("a", coordination.Restart, "a-1")
		repairs.settings.Mode, repairs.execute = coordination.Local, fences
		rounds(repairs)
		w.Expect(repairs.done).To(Equal([]string{"a-1"}))
		w.Expect(seen).To(BeNumerically(">", before), "what another one still does under an older token is refused")
		w.Expect(alone.view().Lock).To(BeNil())

		// The store is back, and with it everybody.
		last := seen // a token of one store may be equal to one of another: the first process has ended before
		back, b := w.joins("a", coordination.Restart, "a-1"), w.joins("b", coordination.Restart)
		back.execute = fences
		rounds(back, b)
		w.Expect(back.done).To(Equal([]string{"a-1"}))
		w.Expect(seen).To(BeNumerically(">=", last))
		w.Expect(w.lastDone().Failure).To(BeEmpty())
		w.Expect(tokens).To(HaveLen(5))
	})
}
