package coordination_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const (
	system      = "store"
	testTimeout = 2 * time.Minute
	duration    = 30 * time.Second // of sessions: no test waits until one expires, and a busy machine must not end them
)

// fixture is a store with participants.
type fixture struct {
	*WithT
	t *testing.T
	kv.Store
	clock *testclock.FakePassiveClock
}

// onAllStores runs a test on each kind of store.
func onAllStores(t *testing.T, test func(t *testing.T, w *fixture)) {
	t.Helper()
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, store(t)))
		})
	}
}

func newFixture(t *testing.T, store kv.Store) *fixture {
	t.Helper()
	return &fixture{WithT: NewWithT(t), t: t, Store: store, clock: testclock.NewFakePassiveClock(time.Unix(1e9, 0))}
}

func (w *fixture) newCoordinator(prefix string, change ...func(*coordination.Options)) *coordination.Coordinator {
	w.t.Helper()
	options := coordination.Options{Store: w.Store, System: system, Name: prefix + "-operator", Clock: w.clock, SessionDuration: duration}
	for _, c := range change {
		c(&options)
	}
	c, err := coordination.New(options)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(c.Configure(w.t.Context(), global(prefix))).To(Succeed())
	return c
}

// configure sets the settings of a participant with a policy.
func (w *fixture) configure(c *coordination.Coordinator, prefix string, policy coordination.Policy) {
	w.t.Helper()
	settings := global(prefix)
	settings.Policy = policy
	w.Expect(c.Configure(w.t.Context(), settings)).To(Succeed())
}

// only returns the members of a step with one member.
func only(id coordination.MemberID) []coordination.MemberID { return []coordination.MemberID{id} }

// carryOutStep accepts an order and answers that it is done.
func (w *fixture) carryOut(c *coordination.Coordinator, members ...coordination.MemberID) {
	w.t.Helper()
	order := c.Order(w.view(), members...)
	w.Expect(order).NotTo(BeNil())
	w.Expect(c.Accept(w.t.Context(), order)).To(Succeed())
	w.Expect(c.Answer(w.t.Context(), order, "")).To(Succeed())
}

func global(prefix string) coordination.Settings {
	return coordination.Settings{Mode: coordination.Global, Prefix: prefix, Generation: 1}
}

func (w *fixture) view() *coordination.View {
	w.t.Helper()
	view, err := coordination.ReadView(w.t.Context(), w.Store, "", system)
	w.Expect(err).NotTo(HaveOccurred())
	return view
}

func (w *fixture) content() map[string]string {
	w.t.Helper()
	found, err := w.Read(w.t.Context(), coordination.DefaultRoot)
	w.Expect(err).NotTo(HaveOccurred())
	content := map[string]string{}
	for key, entry := range found.Entries {
		if !strings.HasPrefix(key, etcdstore.DefaultSessions) {
			content[key] = entry.Value
		}
	}
	return content
}

// declare declares entries as an operator does in a reconcile.
func (w *fixture) declare(c *coordination.Coordinator, wants coordination.WantedEntries) {
	w.t.Helper()
	w.Expect(c.Declare(w.t.Context(), w.view(), wants)).To(Succeed())
}

// restart returns the entries of a participant whose members are ready for a restart.
func restart(ids ...coordination.MemberID) coordination.WantedEntries {
	wants := coordination.WantedEntries{}
	for _, id := range ids {
		wants.Add(coordination.PendingForRestart, id)
		wants.Add(coordination.ReadyForRestart, id)
	}
	return wants
}

func (w *fixture) decide(c *coordination.Coordinator) *coordination.Verdict {
	w.t.Helper()
	verdict, err := c.Check(w.t.Context(), coordination.Restart, "")
	w.Expect(err).NotTo(HaveOccurred())
	return verdict
}
