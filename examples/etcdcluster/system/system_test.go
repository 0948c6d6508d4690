package system_test

import (
	"context"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestLearner adds, starts and promotes a learner.
func TestLearner(t *testing.T) {
	f := setUp(t, 1)
	fresh := f.prepare("b")
	id := f.expect(fresh)

	state := f.state()
	added, found := state.Known("", fresh.PeerURL)
	f.Expect(found).To(BeTrue())
	f.Expect(added.ID).To(Equal(id))
	f.Expect(added.Name).To(BeEmpty(), "it was never started")
	f.Expect(added.Learner).To(BeTrue())
	f.Expect(added.Problem).To(ContainSubstring("never been started"))
	f.Expect(state.Voters()).To(HaveLen(1))
	f.Expect(state.HasQuorum()).To(BeTrue(), "a learner does not count")
	f.Expect(promote(f, id)).To(MatchError(rpctypes.ErrMemberLearnerNotReady))
	f.Expect(f.MoveLeader(t.Context(), state.Leader, id)).To(MatchError(rpctypes.ErrBadLeaderTransferee))

	f.start(fresh, agent.ClusterExisting, f.agent.List()[:2]...)
	f.Eventually(func() error { return promote(f, id) }).Should(Succeed())
	f.Eventually(f.healthyMembers).Should(Equal([]string{"a", "b"}))
	f.Expect(f.Endpoints()).To(HaveLen(2), "requests go to all members that have a quorum")
}

func promote(f *fixture, id uint64) error {
	_, err := f.MemberPromote(f.Context(), id)
	return err
}

func remove(f *fixture, id uint64) error {
	ctx, cancel := context.WithTimeout(f.Context(), rig.Timeout)
	defer cancel()
	_, err := f.MemberRemove(ctx, id)
	return err
}

// TestMoveLeader moves the leader once.
func TestMoveLeader(t *testing.T) {
	f := setUp(t, 3)
	a, b, c := f.id("a"), f.id("b"), f.id("c")
	f.lead("a")
	f.Expect(f.MoveLeader(t.Context(), b, c)).To(MatchError(rpctypes.ErrNotLeader))
	f.Expect(f.MoveLeader(t.Context(), 4711, c)).To(MatchError(rpctypes.ErrNotLeader))
	f.Expect(f.MoveLeader(t.Context(), a, 4711)).To(MatchError(rpctypes.ErrBadLeaderTransferee))
	f.Expect(leader(f.state())).To(Equal("a"), "nothing was done")
	f.Expect(f.MoveLeader(t.Context(), a, b)).To(Succeed())
	f.Eventually(func() string { return leader(f.state()) }).Should(Equal("b"))
}

// TestRemove removes the leader, and the member whose endpoint was used first.
func TestRemove(t *testing.T) {
	f := setUp(t, 3)
	f.lead("a")
	gone := f.id("a")
	f.Expect(f.state().Spares(gone, true)).To(BeTrue())
	f.Eventually(func() error { return remove(f, gone) }).Should(Succeed())
	f.Expect(f.agent.Delete(t.Context(), "a", f.order())).To(Succeed())
	f.Eventually(f.healthyMembers).Should(Equal([]string{"b", "c"}))
	f.Expect(remove(f, gone)).To(MatchError(rpctypes.ErrMemberNotFound))
	f.Expect(f.Endpoints()).To(HaveLen(2))
}

// TestUnhealthyMemberIsNamed reads the state of a system with a member that is dead or hangs. The result names the member.
func TestUnhealthyMemberIsNamed(t *testing.T) {
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
				state, _ = f.State(f.Context())
				if state == nil {
					return false // another member has to become the leader first
				}
				member, _ := state.Member(down)
				return state.HasQuorum() && state.Leader != down && !member.Healthy()
			}).Should(BeTrue())
			for _, m := range state.Members {
				f.Expect(m.Healthy()).To(Equal(m.ID != down), m.Name)
				f.Expect(state.Spares(m.ID, false)).To(Equal(m.ID == down), "two of three are needed")
				if m.ID == down {
					f.Expect(m.Problem).To(ContainSubstring("does not answer"))
				}
			}

			if test.signal == 0 {
				f.start(agent.Member{ID: test.who}, agent.ClusterExisting, f.agent.List()...)
			} else {
				f.signal(test.who, syscall.SIGCONT)
			}
			f.Eventually(f.healthyMembers).Should(Equal([]string{"a", "b", "c"}))
		})
	}
}

// TestNoQuorum returns no state without a quorum, and the complete state with one.
func TestNoQuorum(t *testing.T) {
	f := setUp(t, 3)
	f.lead("a")
	f.signal("b", syscall.SIGSTOP)
	f.signal("c", syscall.SIGSTOP)
	f.Eventually(func() error { _, err := f.State(t.Context()); return err }).Should(MatchError(system.ErrNoQuorum))
	_, err := f.State(t.Context())
	f.Expect(err).To(MatchError(ContainSubstring("context deadline exceeded")), "the reason")

	f.signal("b", syscall.SIGCONT)
	f.signal("c", syscall.SIGCONT)
	f.Eventually(f.healthyMembers).Should(Equal([]string{"a", "b", "c"}))
}

// TestUnreachableEndpoints finds no system at first.
func TestUnreachableEndpoints(t *testing.T) {
	f := setUp(t, 1)
	unused := f.prepare("b")
	none, err := system.Dial([]string{unused.ClientURL})
	f.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { f.Expect(none.Close()).To(Succeed()) })
	_, err = none.State(t.Context())
	f.Expect(err).To(MatchError(system.ErrUnreachable))
	f.Expect(err).To(MatchError(ContainSubstring(unused.ClientURL)))
	f.Expect(none.State(t.Context(), f.Endpoints()...)).To(HaveField("Members", HaveLen(1)))
	f.Expect(none.Endpoints()).To(Equal(f.Endpoints()), "the one that does not answer is not asked for anything")

	state := f.state()

	// Another system was started at the address of a seed.
	f.start(unused, agent.ClusterNew, unused)
	other, err := system.Dial([]string{unused.ClientURL})
	f.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { f.Expect(other.Close()).To(Succeed()) })
	f.Eventually(func() error { _, err := other.State(t.Context()); return err }).Should(Succeed())
	_, err = f.agent.Stop(t.Context(), "a", f.order())
	f.Expect(err).NotTo(HaveOccurred())
	_, err = none.State(t.Context(), unused.ClientURL)
	f.Expect(err).To(MatchError(system.ErrOtherSystem))
	other.Cluster = state.Cluster
	_, err = other.State(t.Context())
	f.Expect(err).To(MatchError(system.ErrOtherSystem), "it is none that was found before")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.State(ended)
	f.Expect(err).To(MatchError(context.Canceled))
	_, err = system.Dial(nil)
	f.Expect(err).To(HaveOccurred())
}
