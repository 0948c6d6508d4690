package system_test

import (
	"context"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
)

// TestLearner is added, started and promoted, each of it as often as somebody likes.
func TestLearner(t *testing.T) {
	f := setUp(t, 1)
	fresh := f.prepare("b")
	id := f.expect(fresh)
	f.Expect(f.AddLearner(t.Context(), fresh.PeerURL)).To(Equal(id), "it is known already")

	state := f.state()
	added, found := state.At(fresh.PeerURL)
	f.Expect(found).To(BeTrue())
	f.Expect(added.Name).To(BeEmpty(), "it was never started")
	f.Expect(added.Learner).To(BeTrue())
	f.Expect(added.Health.Problem).To(ContainSubstring("never been started"))
	f.Expect(state.Quorum()).To(Equal(1), "a learner does not count")
	f.Expect(state.HasQuorum()).To(BeTrue())
	f.Expect(f.Promote(t.Context(), id)).To(MatchError(system.ErrNotInSync))
	another := f.prepare("c")
	_, err := f.AddLearner(t.Context(), another.PeerURL)
	f.Expect(err).To(MatchError(system.ErrNotNow), "etcd takes one learner at a time")
	f.Expect(f.MoveLeader(t.Context(), state.Leader, id)).To(MatchError(ContainSubstring("a learner cannot lead")))

	f.start(fresh, agent.ClusterExisting, f.agent.List()[:2]...)
	f.Eventually(func() error { return f.Promote(t.Context(), id) }).Should(Succeed())
	f.Expect(f.Promote(t.Context(), id)).To(Succeed(), "it votes already")
	f.Eventually(f.settled).Should(Equal([]string{"a", "b"}))
	f.Expect(f.AddLearner(t.Context(), fresh.PeerURL)).To(Equal(id))
	f.Expect(f.Promote(t.Context(), 4711)).To(MatchError(system.ErrNotMember))
}

// TestMoveLeader moves it, once.
func TestMoveLeader(t *testing.T) {
	f := setUp(t, 3)
	a, b, c := f.id("a"), f.id("b"), f.id("c")
	f.lead("a")
	f.Expect(f.MoveLeader(t.Context(), b, c)).To(MatchError(system.ErrOtherLeader))
	f.Expect(f.MoveLeader(t.Context(), a, 4711)).To(MatchError(system.ErrNotMember))
	f.Expect(leader(f.state())).To(Equal("a"), "nothing was done")
	f.Expect(f.MoveLeader(t.Context(), a, b)).To(Succeed())
	f.Eventually(func() string { return leader(f.state()) }).Should(Equal("b"))
	f.Expect(f.MoveLeader(t.Context(), a, b)).To(Succeed(), "it leads already")
	f.Expect(leader(f.state())).To(Equal("b"))
}

// TestRemove makes the system smaller, also by its leader, and by the one that it was found with.
func TestRemove(t *testing.T) {
	f := setUp(t, 3)
	f.lead("a")
	gone := f.id("a")
	f.Expect(f.state().SparesForever(gone)).To(BeTrue())
	f.Eventually(func() error { return f.Remove(t.Context(), gone) }).Should(Succeed())
	f.Expect(f.agent.Delete(t.Context(), "a", f.order())).To(Succeed())
	f.Eventually(f.settled).Should(Equal([]string{"b", "c"}))
	f.Expect(f.Remove(t.Context(), gone)).To(Succeed(), "it is gone already")
	f.Expect(f.Endpoints()).To(HaveLen(3), "those of the two members, and the seed")
}

// TestOneIsDown looks at a system with a member that is dead or hangs. The answer comes, and says who it is.
func TestOneIsDown(t *testing.T) {
	f := setUp(t, 3)
	for name, test := range map[string]struct {
		signal syscall.Signal
		who    string
	}{
		"a follower hangs": {syscall.SIGSTOP, "c"},
		"the leader hangs": {syscall.SIGSTOP, "b"},
		"the seed hangs":   {syscall.SIGSTOP, "a"},
		"one is dead":      {0, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			f.lead("b")
			down := f.id(test.who)
			if test.signal == 0 {
				_, err := f.agent.Stop(f.Context(), test.who, f.order())
				f.Expect(err).NotTo(HaveOccurred())
			} else {
				f.signal(test.who, test.signal)
			}
			var state *system.State
			f.Eventually(func() bool {
				state = f.state()
				member, _ := state.Member(down)
				return state.Agreed && state.HasQuorum() && state.Leader != down && !member.Health.Reachable
			}).Should(BeTrue())
			for _, m := range state.Members {
				f.Expect(m.Health.Reachable).To(Equal(m.ID != down), m.Name)
				f.Expect(state.Spares(m.ID)).To(Equal(m.ID == down), "two of three are needed")
				if m.ID == down {
					f.Expect(m.Health.Problem).To(ContainSubstring("does not answer"))
				}
			}

			if test.signal == 0 {
				f.start(agent.Member{ID: test.who}, agent.ClusterExisting, f.agent.List()...)
			} else {
				f.signal(test.who, syscall.SIGCONT)
			}
			f.Eventually(f.settled).Should(Equal([]string{"a", "b", "c"}))
		})
	}
}

// TestNoQuorum shows what is left, and changes nothing.
func TestNoQuorum(t *testing.T) {
	f := setUp(t, 3)
	f.lead("a")
	f.signal("b", syscall.SIGSTOP)
	f.signal("c", syscall.SIGSTOP)
	f.Eventually(f.State).WithArguments(t.Context()).Should(Satisfy(func(s *system.State) bool { return !s.Agreed && s.Leader == 0 }))
	state := f.state()
	f.Expect(state.Members).To(HaveLen(3))
	f.Expect(state.HasQuorum()).To(BeFalse())
	f.Expect(state.Spares(state.Members[2].ID)).To(BeFalse())
	f.Expect(f.Remove(t.Context(), state.Members[2].ID)).To(MatchError(system.ErrNoLeader))

	f.signal("b", syscall.SIGCONT)
	f.signal("c", syscall.SIGCONT)
	f.Eventually(f.settled).Should(Equal([]string{"a", "b", "c"}))
}

// TestNobody finds no system, and then one.
func TestNobody(t *testing.T) {
	f := setUp(t, 1)
	unused := f.prepare("b")
	none, err := system.Dial([]string{unused.ClientURL})
	f.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { f.Expect(none.Close()).To(Succeed()) })
	_, err = none.State(t.Context())
	f.Expect(err).To(MatchError(system.ErrUnreachable))
	f.Expect(err).To(MatchError(ContainSubstring(unused.ClientURL)))
	_, err = none.AddLearner(t.Context(), unused.PeerURL)
	f.Expect(err).To(MatchError(system.ErrUnreachable))
	none.SetSeeds(f.Endpoints())
	f.Expect(none.State(t.Context())).To(HaveField("Agreed", true))

	state := f.state()

	// Somebody has started another system, at the address of a seed.
	f.start(unused, agent.ClusterNew, unused)
	other, err := system.Dial([]string{unused.ClientURL})
	f.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { f.Expect(other.Close()).To(Succeed()) })
	f.Eventually(other.State).WithArguments(t.Context()).Should(HaveField("Agreed", true))
	_, err = f.agent.Stop(t.Context(), "a", f.order())
	f.Expect(err).NotTo(HaveOccurred())
	none.SetSeeds([]string{unused.ClientURL})
	_, err = none.State(t.Context())
	f.Expect(err).To(MatchError(system.ErrOtherSystem))
	other.SetCluster(state.Cluster)
	_, err = other.State(t.Context())
	f.Expect(err).To(MatchError(system.ErrOtherSystem), "it is none that was found before")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.State(ended)
	f.Expect(err).To(MatchError(context.Canceled))
	_, err = system.Dial(nil)
	f.Expect(err).To(HaveOccurred())
}
