package coordination_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// The tests of this file are about a rolling update of an operator that changes its settings: two processes of
// one participant are alive for a while, and the older one remembers an outdated state.

// next returns another process of the participant, with other settings and the present needs of its members.
func (p *participant) next(settings coordination.Settings) *participant {
	p.f.t.Helper()
	another := *p
	another.fakeSystem = &fakeSystem{needs: coordination.Needs{Members: p.needs.Members, Pending: slices.Clone(p.needs.Pending)}}
	another.system, another.settings, another.Coordinator = another.fakeSystem, settings, p.f.process(strings.TrimSuffix(p.Name(), "-operator"))
	return &another
}

// below returns the keys with a prefix as a segment, except the registrations of live processes.
func (w *fixture) below(prefix string) (keys []string) {
	w.t.Helper()
	for key := range w.content() {
		if slices.Contains(strings.Split(key, "/"), prefix) && !strings.Contains(key, "/instances/") {
			keys = append(keys, key)
		}
	}
	return keys
}

// An older process works again after the newer one has ended, and takes over the entries that the newer one has
// moved.
func TestOlderProcessWorksAfterNewerEnds(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		older, other := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart)
		older.needs.Pending[0].Ready = false
		older.reconcile()
		newer := older.next(global("unicorn"))
		newer.reconcile()
		w.Expect(older.reconcile().Superseded).To(BeTrue())
		w.Expect(w.below("a")).To(BeEmpty())
		w.Expect(newer.Close(t.Context())).To(Succeed())

		older.reconcile()
		w.Expect(w.below("unicorn")).To(BeEmpty())
		w.Expect(w.view().Sets).To(HaveKeyWithValue(coordination.PendingForRestart, HaveKeyWithValue(coordination.MemberID("a-1"), HaveField("Prefix", "a"))))
		w.Expect(older.Close(t.Context())).To(Succeed())
		last := older.next(global("unicorn"))
		last.needs.Pending[0].Ready = true
		reconcileRounds(last, other)
		w.Expect(last.done).To(Equal([]string{"a-1"}))
		w.Expect(w.below("a")).To(BeEmpty())
		w.Expect(w.view().Participants).To(HaveLen(2))
	})
}

// Entries below two prefixes of one participant are merged below one.
func TestParticipantWithTwoPrefixes(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		a := w.join("a", coordination.Restart, "a-1")
		a.needs.Pending[0].Ready = false
		a.reconcile()
		stray := coordination.DefaultRoot + "/" + system
		_, err := w.Commit(t.Context(), kv.Transaction{Then: []kv.Operation{
			kv.Put(stray+"/participants/stray", `{"name":"a-operator","prefix":"stray"}`), kv.Put(stray+"/changes/stray", "{}"),
			kv.Put(stray+"/pendingForRestart/stray/a-1", ""), kv.Put(stray+"/pendingForRestart/stray/a-2", ""),
		}})
		w.Expect(err).NotTo(HaveOccurred())
		for range 3 {
			a.reconcile()
		}
		w.Expect(w.below("stray")).To(BeEmpty())
		w.Expect(w.view().Sets[coordination.PendingForRestart]).To(HaveLen(1))
	})
}

// A process whose prefix was changed by another process writes nothing below the old one.
func TestOldPrefixIsNotDeclared(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		older := w.newCoordinator("dc1")
		view := w.view()
		newer := w.newCoordinator("dc1", func(o *coordination.Options) { o.Name = "dc1-operator" })
		w.Expect(newer.Configure(t.Context(), global("unicorn"))).To(Succeed())
		w.Expect(older.Declare(t.Context(), view, restart("dc1-a"))).To(MatchError(ContainSubstring("has changed its registration")))
		w.Expect(w.below("dc1")).To(BeEmpty())
	})
}

// An older process answers an accepted order at the place to which the newer process has moved the answer.
func TestAnswerMovesWithPrefix(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		older, other := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
		older.settings.Denied = []string{"a-operator"} // so that the other one is the holder
		older.execute = func(coordination.Task) error { return coordination.NotYet("it takes a while") }
		other.reconcile()
		for !w.view().Accepted("a-1") {
			older.reconcile()
			other.reconcile()
		}
		newer := older.next(global("unicorn"))
		newer.reconcile()
		older.execute = nil
		w.Expect(older.reconcile().Superseded).To(BeTrue())
		w.Expect(older.done).To(Equal([]string{"a-1"}))
		w.Expect(w.below("a")).To(BeEmpty())
		newer.needs.Pending = nil // the newer process sees that it is done
		reconcileRounds(other, newer)
		w.Expect(newer.done).To(BeEmpty())
		w.Expect(w.lastDone().Failure).To(BeEmpty())
		w.Expect(w.view().Answers).To(BeEmpty())
	})
}

// A process in local mode waits for an older one that is registered, and reads the store again when the older
// one has returned.
func TestLocalModeWaitsForOlderProcess(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		older, other := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart)
		other.reconcile()
		older.needs.Pending[0].Ready = false
		older.reconcile()
		newer := older.next(coordination.Settings{})
		newer.needs.Pending[0].Ready = true
		w.Expect(newer.reconcile().WaitReasons).To(ContainElement(HaveField("Reason", ContainSubstring("another process of this participant is alive"))))
		w.Expect(newer.done).To(BeEmpty())
		w.Expect(w.view().Present("a")).To(BeTrue())
		w.Expect(older.Close(t.Context())).To(Succeed()) // it hangs, and its session expires
		newer.needs.Pending = nil
		newer.reconcile()
		w.Expect(w.below("a")).To(BeEmpty())

		older.reconcile() // it resumes
		w.Expect(w.view().Present("a")).To(BeTrue())
		newer.needs.Pending = older.next(coordination.Settings{}).needs.Pending
		newer.needs.Pending[0].Ready = true
		newer.reconcile()
		newer.reconcile()
		w.Expect(newer.lastResult.WaitReasons).To(ContainElement(HaveField("Reason", ContainSubstring("another process of this participant is alive"))))
		w.Expect(newer.done).To(BeEmpty())
		w.Expect(older.Close(t.Context())).To(Succeed())
		reconcileRounds(newer, other)
		w.Expect(newer.done).To(Equal([]string{"a-1"}))
		w.Expect(w.below("a")).To(BeEmpty())
	})
}

// A process in local mode finishes its action under its lock, even if an older process returns in between.
func TestLocalActionIsNotInterrupted(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a := w.join("a", coordination.Restart, "a-1")
		a.settings = coordination.Settings{}
		a.execute = func(coordination.Task) error { return coordination.NotYet("it takes a while") }
		a.reconcile()
		another := a.next(global("a"))
		another.needs.Pending = nil
		another.reconcile()
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		w.Expect(a.reconcile().HoldsLock).To(BeTrue())
		a.execute = nil
		reconcileRounds(a)
		w.Expect(a.done).To(Equal([]string{"a-1"}))
		w.Expect(w.view().Lock).To(BeNil())
		w.Expect(w.view().Present("a")).To(BeTrue())
	})
}

// Two processes that both leave do not wait for each other.
func TestBothProcessesLeave(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		older := w.join("a", coordination.Restart, "a-1")
		older.needs.Pending[0].Ready = false
		older.reconcile()
		newer := older.next(older.settings)
		newer.reconcile()
		w.Expect(older.reconcile().Superseded).To(BeTrue())
		for range 2 {
			for _, p := range []*participant{newer, older} {
				p.settings = coordination.Settings{}
				p.reconcile()
			}
		}
		w.Expect(w.below("a")).To(BeEmpty())
		w.Expect(older.reconcile().Superseded).To(BeFalse())
	})
}

// An answer of an older process does not complete an incomplete declaration of a newer one.
func TestAnswerKeepsDeclarationIncomplete(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		older, other := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart)
		older.settings.Denied = []string{"a-operator"} // so that the other one is the holder
		older.execute = func(coordination.Task) error { return coordination.NotYet("it takes a while") }
		for w.view().Answers["a-1"].Token == 0 {
			older.reconcile()
			other.reconcile()
		}
		before := older.Order(w.view(), "a-1")
		store := &failingStore{Store: w.Store}
		newer, err := coordination.New(coordination.Options{Store: store, System: system, Name: "a-operator", Clock: w.clock, SessionDuration: duration})
		w.Expect(err).NotTo(HaveOccurred())
		const untilSecondPart = 2 // the registration and the first part
		store.left.Store(untilSecondPart)
		large := &fakeSystem{needs: coordination.Needs{Members: membersOf("a", manyMembers)}}
		for _, id := range large.needs.Members {
			large.needs.Pending = append(large.needs.Pending, coordination.Need{Action: upgrade, Member: id, Ready: true})
		}
		_, err = newer.Reconcile(t.Context(), older.settings, large)
		w.Expect(err).To(MatchError(errLost))
		w.Expect(w.view().Incomplete()).To(Equal([]string{"a"}))

		w.Expect(older.Answer(t.Context(), before, "")).To(MatchError(kv.ErrConflict))
		w.Expect(w.view().Incomplete()).To(Equal([]string{"a"}))
		w.Expect(older.Answer(t.Context(), older.Order(w.view(), "a-1"), "")).To(Succeed())
		w.Expect(w.view().Incomplete()).To(Equal([]string{"a"}))
	})
}

// An answer in the same Reconcile as a refused declaration does not complete the declaration.
func TestAnswerInFullStoreKeepsDeclarationIncomplete(t *testing.T) {
	t.Parallel()
	w := newFixture(t, inKubernetes(t))
	a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
	a.settings.Denied = []string{"a-operator"} // so that b is the holder
	a.execute = func(coordination.Task) error { return coordination.NotYet("it takes a while") }
	a.reconcile()
	for w.view().Intent == nil {
		b.reconcile()
	}
	a.needs.Pending = nil
	for i := range manyMembers {
		id := coordination.MemberID(fmt.Sprintf("a-%03d", i))
		a.needs.Pending = append(a.needs.Pending, coordination.Need{Action: upgrade, Member: id, Ready: true})
	}
	a.needs.Pending = append(a.needs.Pending, coordination.Need{Action: coordination.Restart, Member: "a-1", Ready: true})
	w.fill(10)
	result, err := a.Reconcile(t.Context(), a.settings, a.system)
	w.Expect(err).To(MatchError(kv.ErrTooLarge))
	w.Expect(w.view().Accepted("a-1")).To(BeTrue(), "%v", result.Events)
	_, err = a.Reconcile(t.Context(), a.settings, a.system)
	w.Expect(err).To(MatchError(kv.ErrTooLarge))
	a.needs.Pending = slices.DeleteFunc(a.needs.Pending, func(n coordination.Need) bool { return n.Action == coordination.Restart })
	a.execute = nil
	_, err = a.Reconcile(t.Context(), a.settings, a.system) // an entry to remove, and an answer
	w.Expect(err).To(MatchError(kv.ErrTooLarge))
	w.Expect(a.done).To(Equal([]string{"a-1"}))
	w.Expect(w.view().Incomplete()).To(Equal([]string{"a"}))
}

// A change of the prefix does not complete an incomplete declaration.
func TestPrefixChangeKeepsDeclarationIncomplete(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		store := &failingStore{Store: w.Store}
		first, err := coordination.New(coordination.Options{Store: store, System: system, Name: "a-operator", Clock: w.clock, SessionDuration: duration})
		w.Expect(err).NotTo(HaveOccurred())
		const untilSecondPart = 2
		store.left.Store(untilSecondPart)
		a := w.join("a", coordination.Restart, membersOf("a", manyMembers)...)
		_, err = first.Reconcile(t.Context(), a.settings, a.system)
		w.Expect(err).To(MatchError(errLost))
		w.Expect(first.Close(t.Context())).To(Succeed())
		err = a.Configure(t.Context(), global("unicorn"))
		if errors.Is(err, kv.ErrTooLarge) {
			t.Fatal(err)
		}
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.view().Incomplete()).To(Equal([]string{"unicorn"}))
	})
}

// A need from before an action does not end the action when its participant changes its prefix.
func TestPrefixChangeIsNoNewNeed(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(_ *testing.T, w *fixture) {
		a, b := w.join("a", coordination.Restart, "a-1"), w.join("b", coordination.Restart, "b-1")
		later := coordination.Need{Action: upgrade, Member: "a-1"} // not ready
		a.needs.Pending = append(a.needs.Pending, later)
		a.settings.Denied = []string{"a-operator"} // so that b is the holder
		b.healthy = coordination.NotYet("a-1 starts")
		a.execute = func(coordination.Task) error { return nil }
		b.reconcile()
		for len(a.done) == 0 {
			a.reconcile()
			b.reconcile()
		}
		a.needs.Pending = []coordination.Need{later}
		a.settings = global("unicorn")
		a.settings.Denied = []string{"a-operator"}
		for range 3 {
			a.reconcile()
			b.reconcile()
		}
		w.Expect(w.view().DoneRecords).To(BeEmpty(), "the upgrade was needed before")
		a.needs.Pending = append(a.needs.Pending, coordination.Need{Action: coordination.Removal, Member: "a-1"})
		for range 2 {
			a.reconcile()
			b.reconcile()
		}
		w.Expect(w.view().DoneRecords).To(ContainElement(HaveField("Failure", ContainSubstring("a-1 needs Removal first"))))
	})
}
