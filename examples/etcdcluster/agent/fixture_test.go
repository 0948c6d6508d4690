package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	"github.com/ringmaster-project/ringmaster/internal/process"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// The environment variable that makes the test binary an agent.
const addressVariable, dirVariable, etcdVariable = "AGENT_ADDRESS", "AGENT_DIR", "AGENT_ETCD"

func TestMain(m *testing.M) {
	if address := os.Getenv(addressVariable); address != "" {
		if err := runAgent(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	rig.Main(m, rig.Options{})
}

func runAgent(address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return agent.Run(ctx, address, agent.Options{
		Dir: os.Getenv(dirVariable), Etcd: os.Getenv(etcdVariable), Region: "dc1",
		Log: funcr.New(func(prefix, args string) { fmt.Println(prefix, args) }, funcr.Options{}),
	})
}

// The timeout is long enough for a machine that is busy with other tests.
const testTimeout = rig.Timeout

// fixture is an agent in its own process.
type fixture struct {
	*testing.T
	Gomega
	dir, address string
	process      *process.Process
	*agent.Client
}

func setUp(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		T: t, Gomega: NewWithT(t), dir: filepath.Join(rig.TempDir(t), "agent"),
		address: net.JoinHostPort("127.0.0.1", strconv.Itoa(rig.ReservePort(t))),
	}
	f.SetDefaultEventuallyTimeout(testTimeout)
	f.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	client, err := agent.NewClient("http://" + f.address)
	f.Expect(err).NotTo(HaveOccurred())
	f.Client = client
	f.run()
	return f
}

// run starts the agent with the existing folder.
func (f *fixture) run() {
	f.Helper()
	executable, err := os.Executable()
	f.Expect(err).NotTo(HaveOccurred())
	started, err := process.Start(process.Spec{
		Name: "agent", Path: executable, Log: f.dir + ".log",
		Env: append(os.Environ(), addressVariable+"="+f.address, dirVariable+"="+f.dir, etcdVariable+"="+filepath.Join(rig.Assets(f), "etcd")),
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.process = started
	f.Cleanup(func() {
		f.Expect(started.Kill()).To(Succeed())
		if f.Failed() {
			f.Logf("--- the agent wrote:\n%s", started.Tail(100))
		}
	})
	f.Eventually(func() error {
		_, err := f.Members(f.Context())
		return err
	}).Should(Succeed())
}

// crash kills the agent, and starts it again.
func (f *fixture) crash() {
	f.Helper()
	f.Expect(f.process.Kill()).To(Succeed())
	f.run()
}

func order(token int64, id string) agent.Order {
	return agent.Order{Token: token, System: "orders", ID: id}
}

// prepare assigns the addresses of a member.
func (f *fixture) prepare(id string) agent.Member {
	f.Helper()
	member, err := f.Prepare(f.Context(), id, "orders")
	f.Expect(err).NotTo(HaveOccurred())
	return member
}

// onlyMemberLaunch returns the launch of the only member of a system.
func onlyMemberLaunch(m agent.Member) agent.Launch {
	return agent.Launch{InitialCluster: m.ID + "=" + m.PeerURL, State: agent.ClusterNew}
}

// startFirst starts a system of one member, and returns the member when it is ready.
func (f *fixture) startFirst(id string) agent.Member {
	f.Helper()
	prepared := f.prepare(id)
	started, err := f.Start(f.Context(), id, order(1, "start "+id), onlyMemberLaunch(prepared))
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(started.Running).To(BeTrue(), started.Problem)
	f.awaitWritable(started)
	return started
}

// awaitWritable waits until a member accepts writes.
func (f *fixture) awaitWritable(m agent.Member) {
	f.Helper()
	f.Eventually(func() error {
		ctx, cancel := context.WithTimeout(f.Context(), 5*time.Second)
		defer cancel()
		_, err := f.etcd(m).Put(ctx, "alive", "1")
		return err
	}).Should(Succeed())
}

func (f *fixture) etcd(m agent.Member) *clientv3.Client {
	f.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.ClientURL}, Logger: zap.NewNop()})
	f.Expect(err).NotTo(HaveOccurred())
	f.Cleanup(func() { _ = client.Close() }) // it is not used any longer
	return client
}

// memberStatus returns a member as the agent reports it.
func (f *fixture) memberStatus(id string) agent.Member {
	f.Helper()
	members, err := f.Members(f.Context())
	f.Expect(err).NotTo(HaveOccurred())
	for _, m := range members {
		if m.ID == id {
			return m
		}
	}
	return agent.Member{}
}

// commandLine returns the command line of the member's process.
func (f *fixture) commandLine(m agent.Member) []string {
	f.Helper()
	var vars struct {
		Cmdline []string `json:"cmdline"`
	}
	response, err := (&http.Client{Timeout: 5 * time.Second}).Get(m.ClientURL + "/debug/vars")
	f.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	f.Expect(json.NewDecoder(response.Body).Decode(&vars)).To(Succeed())
	return vars.Cmdline
}

// awaitExit waits until a process has ended.
func (f *fixture) awaitExit(pid int) {
	f.Helper()
	f.Eventually(func() map[int]string { return rig.Alive(map[int]string{pid: "etcd"}) }).Should(BeEmpty())
}
