package system_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

// fixture is an etcd cluster of real processes.
type fixture struct {
	*testing.T
	Gomega
	agent *agent.Agent
	*system.System
	orders int
}

// setUp starts a system with n voters.
func setUp(t *testing.T, members int) *fixture {
	t.Helper()
	f := &fixture{T: t, Gomega: NewWithT(t)}
	f.SetDefaultEventuallyTimeout(rig.Timeout)
	f.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	var err error
	f.agent, err = agent.New(agent.Options{
		Dir: rig.TempDir(t), Etcd: filepath.Join(rig.Assets(t), "etcd"), Region: "dc1", Log: logr.Discard(),
	})
	f.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { f.Expect(f.agent.Close()).To(Succeed()) })

	for i := range members {
		f.prepare(string(rune('a' + i)))
	}
	all := f.agent.List()
	f.System, err = system.Dial([]string{all[0].ClientURL})
	f.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { f.Expect(f.Close()).To(Succeed()) })
	for _, m := range all {
		f.start(m, agent.ClusterNew, all...)
	}
	f.Eventually(f.healthyMembers).Should(HaveLen(members))
	return f
}

func (f *fixture) prepare(id string) agent.Member {
	f.Helper()
	_, err := f.agent.Prepare(id, "orders")
	f.Expect(err).NotTo(HaveOccurred())
	// A busy machine must not cause an election.
	m, err := f.agent.SetArgs(id, map[string]string{"election-timeout": "2500"})
	f.Expect(err).NotTo(HaveOccurred())
	return m
}

func (f *fixture) order() agent.Order {
	f.orders++
	return agent.Order{Token: 1, System: "orders", ID: strconv.Itoa(f.orders)}
}

// start runs a member of the system, with the others.
func (f *fixture) start(m agent.Member, state agent.ClusterState, all ...agent.Member) {
	f.Helper()
	var cluster []string
	for _, one := range all {
		cluster = append(cluster, one.ID+"="+one.PeerURL)
	}
	_, err := f.agent.Start(f.Context(), m.ID, f.order(), agent.Launch{InitialCluster: strings.Join(cluster, ","), State: state})
	f.Expect(err).NotTo(HaveOccurred())
}

// expect adds a member to the system, when the system is ready for it.
func (f *fixture) expect(m agent.Member) uint64 {
	f.Helper()
	var id uint64
	f.Eventually(func() error {
		answer, err := f.MemberAddAsLearner(f.Context(), []string{m.PeerURL})
		if err == nil {
			id = answer.Member.ID
		}
		return err
	}).Should(Succeed())
	return id
}

// state returns the state of the system. An error ends the test.
func (f *fixture) state() *system.State {
	f.Helper()
	state, err := f.State(f.Context())
	f.Expect(err).NotTo(HaveOccurred())
	return state
}

// healthyMembers returns the members when all are healthy.
func (f *fixture) healthyMembers() []string {
	state, err := f.State(f.Context())
	if err != nil || state.Leader == 0 {
		return nil
	}
	var names []string
	for _, m := range state.Members {
		if m.Learner || !m.Healthy() {
			return nil
		}
		names = append(names, m.Name)
	}
	return names
}

// id returns etcd's ID of a member.
func (f *fixture) id(name string) uint64 {
	f.Helper()
	m, found := f.state().Known(name, "")
	f.Expect(found).To(BeTrue(), name)
	return m.ID
}

// lead makes a member the leader.
func (f *fixture) lead(name string) {
	f.Helper()
	f.Eventually(func() error {
		state, err := f.State(f.Context())
		if err != nil {
			return err
		}
		m, _ := state.Known(name, "")
		if m.ID == state.Leader {
			return nil
		}
		return f.MoveLeader(f.Context(), state.Leader, m.ID)
	}).Should(Succeed())
	f.Eventually(func() string { return leader(f.state()) }).Should(Equal(name))
}

func leader(s *system.State) string {
	m, _ := s.Member(s.Leader)
	return m.Name
}

// signal sends a signal to the process of a member.
func (f *fixture) signal(name string, signal syscall.Signal) {
	f.Helper()
	for _, m := range f.agent.List() {
		if m.ID == name {
			f.Expect(syscall.Kill(m.PID, signal)).To(Succeed())
			return
		}
	}
	f.Fatalf("there is no %s", name)
}
