package coordination_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// sessionCountingStore counts the open sessions.
type sessionCountingStore struct {
	kv.Store
	mu    sync.Mutex
	count int
}

type countedSession struct {
	kv.Session
	store *sessionCountingStore
}

func (n *sessionCountingStore) add(more int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count += more
}

func (n *sessionCountingStore) open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count
}

func (n *sessionCountingStore) Open(ctx context.Context, name string, duration time.Duration) (kv.Session, error) {
	session, err := n.Store.Open(ctx, name, duration)
	if err == nil {
		n.add(1)
	}
	return &countedSession{session, n}, err
}

func (s *countedSession) Close(ctx context.Context) error {
	s.store.add(-1)
	return s.Session.Close(ctx)
}

var errLost = errors.New("the response is lost")

// unreliableStore loses the responses to transactions on request. They are applied or not.
type unreliableStore struct {
	kv.Store
	done, refused atomic.Bool
}

func (u *unreliableStore) Commit(ctx context.Context, transaction kv.Transaction) (int64, error) {
	if u.refused.Load() {
		return 0, errLost
	}
	revision, err := u.Store.Commit(ctx, transaction)
	if err == nil && u.done.Load() {
		return 0, errLost
	}
	return revision, err
}

// A lock without a grant is released.
func TestUncertainLockIsReleased(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		doubt func(w *fixture, one *coordination.Coordinator, store *unreliableStore)
		next  func(w *fixture, one *coordination.Coordinator)
	}{
		"taken, and taken again": {takeInDoubt, func(w *fixture, one *coordination.Coordinator) {
			grant, err := one.Lock(w.t.Context())
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(grant.Token).To(BeEquivalentTo(2))
			w.Expect(grant.Release(w.t.Context())).To(Succeed())
		}},
		"taken, and not wanted any more": {takeInDoubt, configured},
		"not given back":                 {releaseInDoubt, configured},
		"not given back, and another try comes too late": {releaseInDoubt, func(w *fixture, one *coordination.Coordinator) {
			w.declare(one, restart("dc1-a"))
			verdict := w.decide(one)
			w.declare(one, restart("dc1-a", "dc1-b"))
			_, err := one.Begin(w.t.Context(), verdict, nil)
			w.Expect(err).To(MatchError(kv.ErrConflict))
			configured(w, one)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(t *testing.T, w *fixture) {
				store := &unreliableStore{Store: w.Store}
				one, two := w.newCoordinator("dc1", func(o *coordination.Options) { o.Store = store }), w.newCoordinator("dc2")
				test.doubt(w, one, store)
				store.done.Store(false)
				store.refused.Store(false)
				w.Expect(w.view().Lock).NotTo(BeNil())
				test.next(w, one)
				_, err := two.Lock(t.Context())
				w.Expect(err).NotTo(HaveOccurred())
			})
		})
	}
}

func takeInDoubt(w *fixture, one *coordination.Coordinator, store *unreliableStore) {
	store.done.Store(true)
	_, err := one.Lock(w.t.Context())
	w.Expect(err).To(MatchError(errLost))
}

func releaseInDoubt(w *fixture, one *coordination.Coordinator, store *unreliableStore) {
	grant, err := one.Lock(w.t.Context())
	w.Expect(err).NotTo(HaveOccurred())
	store.refused.Store(true)
	w.Expect(grant.Release(w.t.Context())).To(MatchError(errLost))
	w.Expect(grant.Held()).To(BeFalse())
}

func configured(w *fixture, one *coordination.Coordinator) {
	w.Expect(one.Configure(w.t.Context(), global("dc1"))).To(Succeed())
	w.Expect(w.view().Lock).To(BeNil())
}

// watchlessStore is a store without watch signals, as for a process that hangs.
type watchlessStore struct{ kv.Store }

type unnotifiedSession struct{ kv.Session }

func (d watchlessStore) Watch(ctx context.Context, _ string) <-chan struct{} {
	never := make(chan struct{})
	go func() { <-ctx.Done(); close(never) }()
	return never
}

func (d watchlessStore) Open(ctx context.Context, name string, duration time.Duration) (kv.Session, error) {
	session, err := d.Store.Open(ctx, name, duration)
	return &unnotifiedSession{session}, err
}

func (*unnotifiedSession) Lost() <-chan struct{} { return nil }

// The store refuses the writes of a holder that has not noticed the loss of its lock.
func TestOldTokenIsRefused(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(ctx context.Context, grant *coordination.Grant) error{
		"a step": func(ctx context.Context, grant *coordination.Grant) error { return grant.Advance(ctx) },
		"the end": func(ctx context.Context, grant *coordination.Grant) error {
			return grant.Done(ctx, "")
		},
		"something else": func(ctx context.Context, grant *coordination.Grant) error { return grant.Write(ctx, "written", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(t *testing.T, w *fixture) {
				one, two := w.newCoordinator("dc1", func(o *coordination.Options) { o.Store = watchlessStore{w.Store} }), w.newCoordinator("dc2")
				w.declare(one, restart("dc1-a"))
				grant, err := one.Begin(t.Context(), w.decide(one), []coordination.Step{{Do: "restart", Members: only("dc1-a")}})
				w.Expect(err).NotTo(HaveOccurred())
				w.Expect(one.Close(t.Context())).To(Succeed())
				_, err = two.Resume(t.Context())
				w.Expect(err).NotTo(HaveOccurred())
				before := w.content()
				w.Expect(grant.Held()).To(BeTrue(), "it has noticed nothing")
				w.Expect(write(t.Context(), grant)).To(MatchError(coordination.ErrFenced))
				w.Expect(w.content()).To(Equal(before))
				w.Expect(grant.Held()).To(BeFalse())
			})
		})
	}
}

// unreadableStore is a store that cannot read the lock on request.
type unreadableStore struct {
	kv.Store
	mu    sync.Mutex
	times int
}

func (b *unreadableStore) Read(ctx context.Context, paths ...string) (*kv.Snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.times > 0 {
		b.times--
		return nil, errLost
	}
	return b.Store.Read(ctx, paths...)
}

// A holder notices the loss of its lock even if the first read fails.
func TestHangingHolderNoticesLossLate(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		store := &unreadableStore{Store: w.Store}
		one, two := w.newCoordinator("dc1", func(o *coordination.Options) { o.Store = store }), w.newCoordinator("dc2")
		grant, err := one.Lock(t.Context())
		w.Expect(err).NotTo(HaveOccurred())
		denying := global("dc2")
		denying.Denied = []string{"dc1-operator"}
		w.Expect(two.Configure(t.Context(), denying)).To(Succeed())
		store.mu.Lock()
		store.times = 2
		store.mu.Unlock()
		_, err = two.Lock(t.Context())
		w.Expect(err).NotTo(HaveOccurred())
		w.Eventually(grant.Held, testTimeout).Should(BeFalse())
	})
}

// TestAdvanceKeepsPublishedSteps repeats an Advance whose response was lost: other participants may be carrying
// out the published steps.
func TestAdvanceKeepsPublishedSteps(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		store := &unreliableStore{Store: w.Store}
		one := w.newCoordinator("dc1", func(o *coordination.Options) { o.Store = store })
		w.declare(one, restart("dc1-a", "dc1-b"))
		grant, err := one.Begin(t.Context(), w.decide(one), []coordination.Step{{Do: "prepare"}})
		w.Expect(err).NotTo(HaveOccurred())
		published := coordination.Step{Do: "restart", Members: only("dc1-a"), Order: true}
		store.done.Store(true)
		w.Expect(grant.Advance(t.Context(), published)).To(MatchError(errLost))
		store.done.Store(false)

		other := coordination.Step{Do: "restart", Members: only("dc1-b"), Order: true}
		w.Expect(grant.Advance(t.Context(), other)).To(MatchError(kv.ErrConflict))
		w.Expect(w.view().Intent.Steps).To(HaveExactElements(coordination.Step{Do: "prepare"}, published))
		w.Expect(grant.Held()).To(BeTrue())
		w.Expect(grant.Step()).To(Equal(&published))
		w.Expect(grant.Advance(t.Context())).To(Succeed())
		w.Expect(grant.Done(t.Context(), "")).To(Succeed())
	})
}

// TestPrefixTakenWhileParticipantIsDead restarts a participant after another one has taken its prefix.
func TestPrefixTakenWhileParticipantIsDead(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]coordination.Settings{"comes back": global("dc1"), "moves": global("dc3"), "leaves": {Mode: coordination.Local}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onAllStores(t, func(t *testing.T, w *fixture) {
				first := w.newCoordinator("dc1")
				w.Expect(first.Close(t.Context())).To(Succeed())
				second := w.newCoordinator("dc1", func(o *coordination.Options) { o.Name = "other-operator" })
				w.declare(second, restart("dc1-a"))
				back, err := coordination.New(coordination.Options{
					Store: w.Store, System: system, Name: "dc1-operator", Clock: w.clock, SessionDuration: duration,
				})
				w.Expect(err).NotTo(HaveOccurred())
				if err := back.Configure(t.Context(), to); to.Prefix == "dc1" {
					w.Expect(err).To(MatchError(coordination.ErrPrefixTaken))
				} else {
					w.Expect(err).NotTo(HaveOccurred())
				}
				w.Expect(w.view().Sets[coordination.PendingForRestart]).To(HaveKeyWithValue(coordination.MemberID("dc1-a"), HaveField("Prefix", "dc1")))
			})
		})
	}
}

// TestSkippedMembersAreRecorded skips a member during an action: it is not done, and the record has the reason.
func TestSkippedMembersAreRecorded(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		one := w.newCoordinator("dc1")
		w.declare(one, restart("dc1-a", "dc1-b"))
		second := coordination.Step{Do: "restart", Members: only("dc1-b"), Order: true}
		grant, err := one.Begin(t.Context(), w.decide(one), []coordination.Step{{Do: "restart", Members: only("dc1-a"), Order: true}, second})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(grant.SkipMembers(t.Context(), w.view(), "no answer", only("dc1-a"), false, second)).To(Succeed())
		w.Expect(grant.Step()).To(Equal(&second))
		w.Expect(grant.Advance(t.Context())).To(Succeed())
		w.Expect(grant.Done(t.Context(), "")).To(Succeed())
		view := w.view()
		w.Expect(view.DoneRecords[0].LeftOut).To(Equal(map[coordination.MemberID]string{"dc1-a": "no answer"}))
		w.Expect(view.Pending(coordination.Restart)).To(And(HaveKey(coordination.MemberID("dc1-a")), HaveLen(1)))
	})
}

// Of two answers to one step the one that was written last counts: the participant of the other one has died.
func TestNewestAnswerCounts(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		below := coordination.DefaultRoot + "/" + system
		_, err := w.Commit(t.Context(), kv.Transaction{Then: []kv.Operation{kv.Put(below+"/answers/dc1/shared", `{"intent":1,"process":"dead"}`)}})
		w.Expect(err).NotTo(HaveOccurred())
		_, err = w.Commit(t.Context(), kv.Transaction{Then: []kv.Operation{kv.Put(below+"/answers/dc2/shared", `{"intent":1,"done":true}`)}})
		w.Expect(err).NotTo(HaveOccurred())
		const enough = 30 // each with a random order of the map
		for range enough {
			w.Expect(w.view().Answers["shared"].Done).To(BeTrue())
		}
	})
}

// A participant that returns to its former settings replaces the settings of a write that was applied despite an
// error.
func TestUncertainSettingsAreWrittenAgain(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, w *fixture) {
		store := &unreliableStore{Store: w.Store}
		w.Store = store
		a := w.join("a", coordination.Restart)
		a.reconcile()
		before := a.settings
		a.settings.Policy.Quiet = time.Hour
		store.done.Store(true)
		_, err := a.Reconcile(t.Context(), a.settings, a.system)
		w.Expect(err).To(MatchError(errLost))
		store.done.Store(false)
		w.Expect(w.view().Participants[0].Policy.Quiet).To(Equal(time.Hour), "it was written")
		a.settings = before
		a.reconcile()
		w.Expect(w.view().Participants[0].Policy.Quiet).To(BeZero())
	})
}
