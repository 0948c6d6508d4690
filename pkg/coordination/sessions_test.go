package coordination_test

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// Of two processes with one name only the newer one works, even if the older one writes last.
func TestOnlyNewestProcessWorks(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		older, other := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart)
		older.execute = func(coordination.Task) error { return coordination.NotYet("it takes a while") }
		reconcileRounds(older, other)
		newer := *older
		newer.fakeSystem = &fakeSystem{needs: coordination.Needs{Members: only("a-1"), Pending: slices.Clone(older.needs.Pending)}}
		newer.system, newer.Coordinator = newer.fakeSystem, w.process("a")
		w.Expect(newer.reconcile().Superseded).To(BeFalse())
		w.Expect(older.reconcile().Superseded).To(BeTrue())
		older.settings.Generation++ // something to write
		w.Expect(older.reconcile().Superseded).To(BeTrue())
		w.Expect(w.view().Present("a")).To(BeTrue())
		reconcileRounds(other, &newer)
		w.Expect(newer.done).To(BeEmpty(), "the older process carries it out, and is alive")
		older.execute = nil
		older.reconcile()
		w.Expect(older.done).To(Equal([]string{"a-1"}))
		newer.needs.Pending = nil // the newer process sees that it is done
		reconcileRounds(older, other, &newer)
		w.Expect(newer.done).To(BeEmpty())
		w.Expect(w.lastDone().Failure).To(BeEmpty())

		w.Expect(older.Close(t.Context())).To(Succeed())
		w.Expect(w.view().Present("a")).To(BeTrue(), "the newer process is alive")
	})
}

// sessionLosingStore is a store whose sessions are lost on request. Other processes still see them for a while.
type sessionLosingStore struct {
	kv.Store
	lost chan struct{}
}

type losingSession struct {
	kv.Session
	lost chan struct{}
}

func (s *losingSession) Lost() <-chan struct{} { return s.lost }

func (l *sessionLosingStore) Open(ctx context.Context, name string, duration time.Duration) (kv.Session, error) {
	session, err := l.Store.Open(ctx, name, duration)
	l.lost = make(chan struct{})
	return &losingSession{session, l.lost}, err
}

// A process that has lost its session does not mistake its own old registration for another process.
func TestLostSessionIsReplaced(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		store := &sessionLosingStore{Store: w.Store}
		w.Store = store
		a := w.join("a", coordination.Restart)
		a.reconcile()
		for range 6 {
			close(store.lost)
			w.Expect(a.reconcile().Superseded).To(BeFalse())
			w.Expect(a.reconcile().Superseded).To(BeFalse())
		}
		w.Expect(w.view().Instances).To(HaveLen(1))
	})
}

// The registration of a process is compared with the store.
func TestRemovedRegistrationIsWrittenAgain(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a := w.join("a", coordination.Restart)
		a.reconcile()
		_, err := w.Commit(t.Context(), kv.Transaction{Then: []kv.Operation{
			kv.DeleteBelow(coordination.DefaultRoot + "/" + system + "/instances"),
		}})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.view().Present("a")).To(BeFalse())
		a.reconcile()
		a.reconcile()
		w.Expect(w.view().Present("a")).To(BeTrue())
	})
}
