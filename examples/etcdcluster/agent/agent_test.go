package agent_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestMembersEndWithAgent kills the agent, and stops it: no member outlives it, and the next agent starts all of them again.
func TestMembersEndWithAgent(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "asked to end": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			before := f.startFirst("dc1-1")
			_, err := f.etcd(before).Put(t.Context(), "color", "red")
			f.Expect(err).NotTo(HaveOccurred())

			f.Expect(f.process.Signal(signal)).To(Succeed())
			<-f.process.Done()
			f.awaitExit(before.PID)

			f.run()
			f.Eventually(func() bool { return f.memberStatus("dc1-1").Running }).Should(BeTrue())
			after := f.memberStatus("dc1-1")
			f.Expect([]string{after.ClientURL, after.PeerURL}).To(Equal([]string{before.ClientURL, before.PeerURL}))
			f.awaitWritable(after)
			found, err := f.etcd(after).Get(t.Context(), "color")
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(found.Kvs).To(HaveLen(1))
		})
	}
}

// TestRefusals makes invalid calls.
func TestRefusals(t *testing.T) {
	f := setUp(t)
	f.prepare("dc1-1")
	args := func(name string) error {
		_, err := f.SetArgs(t.Context(), "dc1-1", map[string]string{name: "1"})
		return err
	}
	start := func(cluster string, state agent.ClusterState) error {
		_, err := f.Start(t.Context(), "dc1-1", order(1, "start"), agent.Launch{InitialCluster: cluster, State: state})
		return err
	}
	prepare := func(id string) error {
		_, err := f.Prepare(t.Context(), id, "orders")
		return err
	}
	version := func(id, version string) error {
		_, err := f.SetVersion(t.Context(), id, version)
		return err
	}
	for name, test := range map[string]struct {
		err  error
		want error
		text string
	}{
		"an ID that is a path":     {prepare("../dc1"), agent.ErrInvalid, "invalid member ID"},
		"an ID that is too long":   {prepare(strings.Repeat("a", 64)), agent.ErrInvalid, "invalid member ID"},
		"an ID in capitals":        {prepare("DC1"), agent.ErrInvalid, "invalid member ID"},
		"its name":                 {args("name"), agent.ErrInvalid, "the argument name is set by the agent"},
		"its data":                 {args("data-dir"), agent.ErrInvalid, "set by the agent"},
		"its first cluster":        {args("initial-cluster-token"), agent.ErrInvalid, "set by the agent"},
		"where it listens":         {args("listen-metrics-urls"), agent.ErrInvalid, "set by the agent"},
		"its peers' certificates":  {args("peer-trusted-ca-file"), agent.ErrInvalid, "set by the agent"},
		"no check of its peers":    {args("experimental-peer-skip-client-san-verification"), agent.ErrInvalid, "set by the agent"},
		"all of it in a file":      {args("config-file"), agent.ErrInvalid, "set by the agent"},
		"an argument with dashes":  {args("--log-level"), agent.ErrInvalid, "without the leading dashes"},
		"two arguments in one":     {args("log-level=a --name"), agent.ErrInvalid, "without the leading dashes"},
		"no state":                 {start("a=http://127.0.0.1:1", ""), agent.ErrInvalid, "use new or existing"},
		"no cluster":               {start("", agent.ClusterNew), agent.ErrInvalid, "name=http://host:port"},
		"a cluster without a name": {start("http://127.0.0.1:1", agent.ClusterNew), agent.ErrInvalid, "name=http://host:port"},
		"a cluster of sockets":     {start("a=unix://127.0.0.1:1", agent.ClusterNew), agent.ErrInvalid, "name=https://host:port"},
		"an order without an ID":   {f.Delete(t.Context(), "dc1-1", order(1, "")), agent.ErrInvalid, "needs an ID"},
		"an ID of another system": {func() error {
			_, err := f.Prepare(t.Context(), "dc1-1", "payments")
			return err
		}(), agent.ErrTaken, "belongs to system \"orders\""},
		"an invalid version": {version("dc1-1", "../etcd"), agent.ErrInvalid, "invalid version"},
		"a missing version":  {version("dc1-1", "3.0.1"), agent.ErrInvalid, "etcd 3.0.1 not found (available: 3."},
		"foreign version":    {version("dc1-2", ""), agent.ErrNotPrepared, "prepare it first"},
		"foreign arguments": {func() error {
			_, err := f.SetArgs(t.Context(), "dc1-2", nil)
			return err
		}(), agent.ErrNotPrepared, "prepare it first"},
		"foreign start": {func() error {
			_, err := f.Start(t.Context(), "dc1-2", order(1, "start"), agent.Launch{InitialCluster: "a=http://127.0.0.1:1", State: agent.ClusterNew})
			return err
		}(), agent.ErrNotPrepared, "prepare it first"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(test.err).To(MatchError(test.want))
			g.Expect(test.err.Error()).To(ContainSubstring(test.text))
		})
	}
	f.Expect(f.memberStatus("dc1-1").Phase).To(Equal(agent.Prepared))
}

// TestFolder refuses a folder of another agent or region.
func TestFolder(t *testing.T) {
	g := NewWithT(t)
	options := agent.Options{Dir: rig.TempDir(t), Etcd: filepath.Join(rig.Assets(t), "etcd"), Region: "dc1", Log: logr.Discard()}
	first, err := agent.New(options)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = agent.New(options)
	g.Expect(err).To(MatchError(ContainSubstring("another agent uses the folder")))
	g.Expect(first.Close()).To(Succeed())

	other := options
	other.Region = "dc2"
	_, err = agent.New(other)
	g.Expect(err).To(MatchError(ContainSubstring("belongs to region dc1")))
	other = options
	other.Etcd = filepath.Join(options.Dir, "etcd")
	_, err = agent.New(other)
	g.Expect(err).To(MatchError(os.ErrNotExist))
}

// TestInterruptedDelete finishes a deletion that a former agent has begun.
func TestInterruptedDelete(t *testing.T) {
	g := NewWithT(t)
	options := agent.Options{Dir: rig.TempDir(t), Etcd: filepath.Join(rig.Assets(t), "etcd"), Region: "dc1", Log: logr.Discard()}
	member := filepath.Join(options.Dir, "members", "dc1-1")
	g.Expect(os.MkdirAll(filepath.Join(member, "data", "member"), 0o750)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(member, "member.json"),
		[]byte(`{"id": "dc1-1", "clientPort": 10, "peerPort": 11, "phase": "Deleting", "lastOrder": "delete"}`), 0o640)).To(Succeed())
	halfMade := filepath.Join(options.Dir, "members", "dc1-2")
	g.Expect(os.MkdirAll(halfMade, 0o750)).To(Succeed())

	next, err := agent.New(options)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(next.List()).To(BeEmpty())
	g.Expect(filepath.Join(member, "data")).NotTo(BeADirectory())
	g.Expect(halfMade).NotTo(BeADirectory())
	g.Expect(next.Close()).To(Succeed())
}

// TestPorts assigns ports in order, each to one member, also if agents do not know each other.
func TestPorts(t *testing.T) {
	g := NewWithT(t)
	ports := agent.PortRange{}
	g.Expect(ports.Set("1-")).NotTo(Succeed())
	g.Expect(ports.Set("20-10")).NotTo(Succeed())
	g.Expect(ports.Set("10-70000")).NotTo(Succeed())
	g.Expect(ports.Set("10")).NotTo(Succeed())
	g.Expect(ports.String()).To(BeEmpty())

	start := rig.ReservePort(t)
	ports = agent.PortRange{First: start, Last: min(start+60, 32_000)}
	given := map[string]bool{}
	var last int
	for _, region := range []string{"dc1", "dc2"} {
		a, err := agent.New(agent.Options{
			Dir: rig.TempDir(t), Etcd: filepath.Join(rig.Assets(t), "etcd"), Region: region, Ports: ports, Log: logr.Discard(),
		})
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { g.Expect(a.Close()).To(Succeed()) })
		for _, id := range []string{region + "-1", region + "-2"} {
			m, err := a.Prepare(id, "orders")
			g.Expect(err).NotTo(HaveOccurred())
			for _, url := range []string{m.ClientURL, m.PeerURL} {
				address, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(url, "http://"))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(address.Port).To(And(BeNumerically(">", last), BeNumerically("<=", ports.Last)))
				last = address.Port
				given[url] = true
			}
		}
	}
	g.Expect(given).To(HaveLen(8))
}

// TestVersions finds versions by their names, and applies them with a restart.
func TestVersions(t *testing.T) {
	g := NewWithT(t)
	etcd, folder := filepath.Join(rig.Assets(t), "etcd"), rig.TempDir(t)
	another := filepath.Join(folder, "3.0.1", "etcd")
	g.Expect(os.MkdirAll(filepath.Dir(another), 0o750)).To(Succeed())
	g.Expect(os.WriteFile(another, []byte("#!/bin/sh\necho another one; exit 7\n"), 0o750)).To(Succeed())
	a, err := agent.New(agent.Options{Dir: rig.TempDir(t), Etcd: etcd, Versions: folder, Region: "dc1", Log: logr.Discard()})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(a.Close()).To(Succeed()) })
	first, err := a.Prepare("dc1-1", "orders")
	g.Expect(err).NotTo(HaveOccurred())
	started, err := a.Start(t.Context(), "dc1-1", order(1, "start"), onlyMemberLaunch(first))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(started.Running).To(BeTrue(), started.Problem)

	_, err = a.SetVersion("dc1-1", "3.0.2")
	g.Expect(err).To(MatchError(ContainSubstring("put its binary at " + filepath.Join(folder, "3.0.2", "etcd"))))
	set, err := a.SetVersion("dc1-1", "3.0.1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(set.ArgsCurrent()).To(BeFalse())
	g.Expect(set.PID).To(Equal(started.PID), "it is left alone")
	after, err := a.Restart(t.Context(), "dc1-1", order(1, "restart"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after.ArgsCurrent()).To(BeTrue())
	g.Eventually(func() string { return a.List()[0].Problem }).WithTimeout(testTimeout).Should(ContainSubstring("another one"))
}
