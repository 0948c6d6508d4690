package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestPrepare assigns addresses once, and starts nothing.
func TestPrepare(t *testing.T) {
	f := setUp(t)
	first, second := f.prepare("dc1-1"), f.prepare("dc1-2")
	f.Expect(f.prepare("dc1-1")).To(Equal(first))
	f.Expect([]string{first.PeerURL, second.ClientURL, second.PeerURL}).NotTo(ContainElement(first.ClientURL))
	f.Expect(first.Running).To(BeFalse())
	f.Expect(first.Phase).To(Equal(agent.Prepared))

	f.crash()
	members, err := f.Members(t.Context())
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(members).To(Equal([]agent.Member{first, second}), "it remembers them")
	f.Expect(rig.Descendants(t, f.process.PID())).To(BeEmpty())
}

// TestStart starts a system of one member, which accepts writes.
func TestStart(t *testing.T) {
	f := setUp(t)
	started := f.startFirst("dc1-1")
	f.Expect(f.memberStatus("dc1-1")).To(Equal(started))
	f.Expect(started.Since.IsZero()).To(BeFalse())

	again, err := f.Start(t.Context(), "dc1-1", order(2, "start again"), onlyMemberLaunch(started))
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(again.PID).To(Equal(started.PID), "what runs is left alone")
	f.Expect(again.LastOrder).To(Equal("start again"))
}

// TestArgs applies arguments with a restart and not before, and keeps the data.
func TestArgs(t *testing.T) {
	f := setUp(t)
	before := f.startFirst("dc1-1")
	_, err := f.etcd(before).Put(t.Context(), "color", "red")
	f.Expect(err).NotTo(HaveOccurred())

	set, err := f.SetArgs(t.Context(), "dc1-1", map[string]string{"heartbeat-interval": "50", "election-timeout": "500"})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(set.ArgsCurrent()).To(BeFalse())
	f.Expect(set.PID).To(Equal(before.PID))
	f.Expect(f.commandLine(set)).NotTo(ContainElement("--heartbeat-interval=50"))

	after, err := f.Restart(t.Context(), "dc1-1", order(1, "restart"))
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(after.ArgsCurrent()).To(BeTrue())
	f.Expect(after.PID).NotTo(Equal(before.PID))
	f.awaitExit(before.PID)
	f.awaitWritable(after)
	f.Expect(f.commandLine(after)).To(ContainElement("--heartbeat-interval=50"))
	found, err := f.etcd(after).Get(t.Context(), "color")
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(found.Kvs).To(HaveLen(1))
}

// TestCrash kills a member: it is started again with the same arguments.
func TestCrash(t *testing.T) {
	f := setUp(t)
	before := f.startFirst("dc1-1")
	_, err := f.SetArgs(t.Context(), "dc1-1", map[string]string{"heartbeat-interval": "50", "election-timeout": "500"})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(syscall.Kill(before.PID, syscall.SIGKILL)).To(Succeed())
	f.Eventually(func() int { return f.memberStatus("dc1-1").PID }).ShouldNot(Or(Equal(before.PID), BeZero()))
	after := f.memberStatus("dc1-1")
	f.Expect(after.Crashes).To(BeNumerically(">", 0))
	f.awaitWritable(after)
	f.Expect(f.commandLine(after)).NotTo(ContainElement("--heartbeat-interval=50"), "nobody has ordered it")
	f.Expect(after.ArgsCurrent()).To(BeFalse())
}

// TestHangingMemberIsRestarted restarts a member that hangs.
func TestHangingMemberIsRestarted(t *testing.T) {
	f := setUp(t)
	before := f.startFirst("dc1-1")
	f.Expect(syscall.Kill(before.PID, syscall.SIGSTOP)).To(Succeed())
	after, err := f.Restart(t.Context(), "dc1-1", order(1, "restart"))
	f.Expect(err).NotTo(HaveOccurred())
	f.awaitExit(before.PID)
	f.awaitWritable(after)
}

// TestFence refuses an order with an old token, also after a restart of the agent.
func TestFence(t *testing.T) {
	f := setUp(t)
	running := f.startFirst("dc1-1")
	_, err := f.Start(t.Context(), "dc1-1", order(7, "by the next one"), onlyMemberLaunch(running))
	f.Expect(err).NotTo(HaveOccurred())

	refused := func() {
		t.Helper()
		pid := f.memberStatus("dc1-1").PID
		for token, want := range map[int64]error{6: agent.ErrFenced, 1: agent.ErrFenced, 0: agent.ErrInvalid, -1: agent.ErrInvalid} {
			_, start := f.Start(t.Context(), "dc1-1", order(token, "late"), onlyMemberLaunch(running))
			_, restart := f.Restart(t.Context(), "dc1-1", order(token, "late"))
			_, stop := f.Stop(t.Context(), "dc1-1", order(token, "late"))
			for _, err := range []error{start, restart, stop, f.Delete(t.Context(), "dc1-1", order(token, "late"))} {
				f.Expect(err).To(MatchError(want), "%d", token)
			}
			f.Expect(f.Delete(t.Context(), "nobody", order(token, "late"))).To(MatchError(want))
		}
		f.Expect(f.memberStatus("dc1-1").PID).To(Equal(pid), "nothing was done")
	}
	refused()
	f.crash()
	f.Eventually(func() bool { return f.memberStatus("dc1-1").Running }).Should(BeTrue())
	refused()

	_, err = f.Restart(t.Context(), "dc1-1", order(6, "late"))
	f.Expect(err.Error()).To(ContainSubstring("token 6 is older than 7"))
	_, err = f.Restart(t.Context(), "dc1-1", order(7, "the same holder"))
	f.Expect(err).NotTo(HaveOccurred())

	f.Expect(f.Delete(t.Context(), "nobody", order(8, "the next holder"))).To(Succeed())
	_, err = f.Restart(t.Context(), "dc1-1", order(7, "the same holder again"))
	f.Expect(err).To(MatchError(agent.ErrFenced), "an order for a member that is not there shows its token too")
}

// TestTokensOfSystems keeps the tokens of each system separately, and returns the highest one with a refusal:
// the store may be new, or restored from an old snapshot.
func TestTokensOfSystems(t *testing.T) {
	f := setUp(t)
	f.startFirst("dc1-1")
	_, err := f.Restart(t.Context(), "dc1-1", order(100, "by the hundredth holder"))
	f.Expect(err).NotTo(HaveOccurred())

	second, err := f.Prepare(t.Context(), "x1-1", "payments")
	f.Expect(err).NotTo(HaveOccurred())
	first := agent.Order{Token: 1, System: "payments", ID: "by the first holder"}
	started, err := f.Start(t.Context(), "x1-1", first, onlyMemberLaunch(second))
	f.Expect(err).NotTo(HaveOccurred(), "the token is the newest of its system")
	f.awaitWritable(started)
	_, err = f.Restart(t.Context(), "dc1-1", agent.Order{Token: 101, System: "payments", ID: "of another system"})
	f.Expect(err).To(MatchError(agent.ErrTaken))

	f.crash()
	for _, counted := range []int64{1, 99} {
		_, err = f.Restart(t.Context(), "dc1-1", order(counted, "after the store was restored"))
		refused := &agent.RefusedError{}
		f.Expect(errors.As(err, &refused)).To(BeTrue())
		f.Expect(refused).To(And(HaveField("Reason", agent.ReasonFenced), HaveField("Seen", int64(100))))
	}
	f.Expect(f.Delete(t.Context(), "x1-1", agent.Order{Token: 1, System: "payments", ID: "delete"})).To(Succeed())
}

// TestRepeatedOrder carries out a repeated order once.
func TestRepeatedOrder(t *testing.T) {
	f := setUp(t)
	f.startFirst("dc1-1")
	once, err := f.Restart(t.Context(), "dc1-1", order(1, "restart"))
	f.Expect(err).NotTo(HaveOccurred())
	for _, token := range []int64{1, 2} {
		again, err := f.Restart(t.Context(), "dc1-1", order(token, "restart"))
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(again.PID).To(Equal(once.PID))
	}

	f.crash()
	f.Eventually(func() bool { return f.memberStatus("dc1-1").Running }).Should(BeTrue())
	before := f.memberStatus("dc1-1")
	again, err := f.Restart(t.Context(), "dc1-1", order(2, "restart"))
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(again.PID).To(Equal(before.PID), "the next agent knows the order")
}

// TestOrdersAreCarriedOutByToken gives orders with many tokens concurrently. They are carried out in the order of their tokens,
// or not at all.
func TestOrdersAreCarriedOutByToken(t *testing.T) {
	f := setUp(t)
	f.startFirst("dc1-1")
	const holders = 8
	var giving sync.WaitGroup
	for token := range int64(holders) {
		giving.Go(func() {
			_, err := f.Restart(t.Context(), "dc1-1", order(2+token, "restart "+strconv.FormatInt(2+token, 10)))
			if err != nil && !errors.Is(err, agent.ErrFenced) {
				t.Error(err)
			}
		})
	}
	giving.Wait()
	f.Expect(f.memberStatus("dc1-1").LastOrder).To(Equal(fmt.Sprintf("restart %d", holders+1)))

	wrote, err := os.ReadFile(f.dir + ".log")
	f.Expect(err).NotTo(HaveOccurred())
	last := 0
	for line := range strings.Lines(string(wrote)) {
		if _, after, found := strings.Cut(line, `"token"=`); found && strings.Contains(line, "Carrying out") {
			token, err := strconv.Atoi(strings.TrimSpace(after))
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(token).To(BeNumerically(">", last))
			last = token
		}
	}
	f.Expect(last).To(Equal(holders + 1))
}

// TestStop keeps the data, and a restarted agent does not start the member.
func TestStop(t *testing.T) {
	f := setUp(t)
	running := f.startFirst("dc1-1")
	_, err := f.etcd(running).Put(t.Context(), "color", "red")
	f.Expect(err).NotTo(HaveOccurred())
	stopped, err := f.Stop(t.Context(), "dc1-1", order(1, "stop"))
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(stopped.Running).To(BeFalse())
	f.Expect(stopped.Phase).To(Equal(agent.Stopped))
	f.awaitExit(running.PID)

	f.crash()
	f.Expect(f.memberStatus("dc1-1")).To(Equal(stopped))
	f.Expect(rig.Descendants(t, f.process.PID())).To(BeEmpty())

	again, err := f.Start(t.Context(), "dc1-1", order(1, "start again"), onlyMemberLaunch(stopped))
	f.Expect(err).NotTo(HaveOccurred())
	f.awaitWritable(again)
	found, err := f.etcd(again).Get(t.Context(), "color")
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(found.Kvs).To(HaveLen(1))
}

// TestDelete removes a member completely, and does not affect a later member with the same ID.
func TestDelete(t *testing.T) {
	f := setUp(t)
	running := f.startFirst("dc1-1")
	data := filepath.Join(f.dir, "members", "dc1-1", "data")
	f.Expect(data).To(BeADirectory())
	f.Expect(f.Delete(t.Context(), "dc1-1", order(1, "delete"))).To(Succeed())
	f.awaitExit(running.PID)
	f.Expect(data).NotTo(BeADirectory())
	f.Expect(f.Members(t.Context())).To(BeEmpty())
	f.Expect(f.Delete(t.Context(), "dc1-1", order(1, "delete"))).To(Succeed())
	_, err := f.Restart(t.Context(), "dc1-1", order(1, "restart"))
	f.Expect(err).To(MatchError(agent.ErrNotPrepared))

	f.crash()
	f.Expect(f.Members(t.Context())).To(BeEmpty())
	f.prepare("dc1-1")
	f.Expect(f.Delete(t.Context(), "dc1-1", order(2, "delete"))).To(Succeed())
	f.Expect(f.memberStatus("dc1-1").Phase).To(Equal(agent.Prepared), "that order was about the other one")
	_, err = f.Restart(t.Context(), "dc1-1", order(2, "restart"))
	f.Expect(err).To(MatchError(agent.ErrNotStarted))
	f.Expect(f.Delete(t.Context(), "dc1-1", order(2, "delete this one too"))).To(Succeed())
	f.Expect(f.Members(t.Context())).To(BeEmpty())
}

// TestBadArgs reports why a member does not run, and recovers.
func TestBadArgs(t *testing.T) {
	f := setUp(t)
	f.startFirst("dc1-1")
	_, err := f.SetArgs(t.Context(), "dc1-1", map[string]string{"heartbeat-interval": "soon"})
	f.Expect(err).NotTo(HaveOccurred())
	_, err = f.Restart(t.Context(), "dc1-1", order(1, "restart"))
	f.Expect(err).NotTo(HaveOccurred())
	f.Eventually(func() string { return f.memberStatus("dc1-1").Problem }).Should(ContainSubstring(`invalid value "soon" for flag -heartbeat-interval`))

	_, err = f.SetArgs(t.Context(), "dc1-1", nil)
	f.Expect(err).NotTo(HaveOccurred())
	recovered, err := f.Restart(t.Context(), "dc1-1", order(1, "restart again"))
	f.Expect(err).NotTo(HaveOccurred())
	f.awaitWritable(recovered)
	f.Expect(f.memberStatus("dc1-1").Problem).To(BeEmpty())
}

// TestInvalidInitialClusterIsCorrected starts a member with a wrong initial cluster, and then with the right one.
func TestInvalidInitialClusterIsCorrected(t *testing.T) {
	f := setUp(t)
	prepared := f.prepare("dc1-1")
	wrong := agent.Launch{InitialCluster: "dc1-2=" + prepared.PeerURL, State: agent.ClusterNew}
	_, err := f.Start(t.Context(), "dc1-1", order(1, "start"), wrong)
	f.Expect(err).NotTo(HaveOccurred())
	f.Eventually(func() string { return f.memberStatus("dc1-1").Problem }).Should(ContainSubstring("couldn't find local name"))
	_, err = f.Start(t.Context(), "dc1-1", order(1, "start right"), onlyMemberLaunch(prepared))
	f.Expect(err).NotTo(HaveOccurred())
	f.awaitWritable(prepared)
}
