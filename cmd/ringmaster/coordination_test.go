package main_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus/coordinationtest"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// What is shown is tested beside it. Here is how it is asked for.

// meeting is where instances meet, and how a person names it.
type meeting struct {
	store kv.Store
	flags []string
}

func inEtcd(t *testing.T) meeting {
	t.Helper()
	endpoint := "http://" + rig.Etcd(t, 1)[0].Endpoint
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // its etcd may be gone
	return meeting{etcdstore.New(client, etcdstore.Options{}), []string{"--endpoints", endpoint}}
}

func inNamespace(t *testing.T) meeting {
	t.Helper()
	r := rig.Shared(t)
	clients, err := kubernetes.NewForConfig(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	store, err := kubestore.New(clients, kubestore.Options{Namespace: r.Namespace, Name: "meeting"})
	if err != nil {
		t.Fatal(err)
	}
	return meeting{store, []string{"--namespace", r.Namespace, "--store-name", "meeting"}}
}

// join makes a region take part in a system.
func (m meeting) join(t *testing.T, system, prefix string) *coordinationtest.Region {
	t.Helper()
	region := coordinationtest.Join(t, m.store, system, prefix, clock.RealClock{})
	region.Reconcile()
	return region
}

func TestCoordination(t *testing.T) {
	somebody := newPerson(t, rig.Shared(t))
	for name, open := range map[string]func(*testing.T) meeting{"etcd": inEtcd, "namespace": inNamespace} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m := open(t)
			types := func(args ...string) (out, said string, err error) {
				return somebody.types("", append(append([]string{"coordination"}, args...), m.flags...)...)
			}
			_, said, err := types("status")
			g.Expect(err).To(HaveOccurred())
			g.Expect(said).To(And(ContainSubstring("no entries below"), ContainSubstring("set the right --endpoints")))

			one, two := m.join(t, "store", "dc1"), m.join(t, "store", "dc2")
			one.Need(coordinationtest.Restart, "dc1-1", false)
			two.Need(coordinationtest.Restart, "dc2-1", false)
			shown, said, err := types("status", "store")
			g.Expect(err).NotTo(HaveOccurred(), said)
			g.Expect(shown).To(And(HavePrefix("store: 2 instances, nobody holds the lock\n"), Not(ContainSubstring("\x1b")),
				MatchRegexp(`dc2-operator +dc2 +global +0 +makes dc2-1 ready for the Restart`),
				ContainSubstring("Restart waits for dc1-1: it is not ready; dc2-1: it is not ready.")))
			coloured, said, err := types("status", "--color=always", "-o", "wide")
			g.Expect(err).NotTo(HaveOccurred(), said)
			g.Expect(coloured).To(ContainSubstring("\x1b[33mnot ready\x1b[0m"))
			asJSON, said, err := types("status", "-o", "json")
			g.Expect(err).NotTo(HaveOccurred(), said)
			var read struct{ Systems []coordination.View }
			g.Expect(json.Unmarshal([]byte(asJSON), &read)).To(Succeed())
			g.Expect(read.Systems[0].Sets["pendingForRestart"]).To(HaveLen(2))

			_, said, err = types("status", "elsewhere")
			g.Expect(err).To(HaveOccurred())
			g.Expect(said).To(And(ContainSubstring(`system "elsewhere" not found`), ContainSubstring("available: store")))

			// One is gone for good.
			_, said, err = types("forget", "dc2", "--yes")
			g.Expect(err).To(HaveOccurred())
			g.Expect(said).To(ContainSubstring("dc2-operator of dc2 is alive"))
			g.Expect(two.Close(t.Context())).To(Succeed())
			shown, said, err = types("forget", "dc2")
			g.Expect(err).To(HaveOccurred())
			g.Expect(shown).To(ContainSubstring("dc2 has left behind in store: dc2-1 in pendingForRestart."))
			g.Expect(said).To(ContainSubstring("nothing was removed: add --yes"))
			shown, said, err = types("forget", "store", "dc2", "--yes")
			g.Expect(err).NotTo(HaveOccurred(), said)
			g.Expect(shown).To(ContainSubstring("It was removed."))
			g.Expect(one.Reconcile().View.Pending(coordinationtest.Restart)).To(HaveLen(1))
			_, said, err = types("forget", "dc2", "--yes")
			g.Expect(err).To(HaveOccurred())
			g.Expect(said).To(ContainSubstring("no entries of dc2 in store; no participant has left entries behind"))

			intervenes(t, g, one, types)

			m.join(t, "another", "dc1")
			shown, said, err = types("status")
			g.Expect(err).NotTo(HaveOccurred(), said)
			g.Expect(shown).To(And(HavePrefix("another: 1 instance"), ContainSubstring("\nstore: 1 instance")))
			_, said, err = types("forget", "dc2")
			g.Expect(err).To(HaveOccurred())
			g.Expect(said).To(ContainSubstring("Name it before the prefix: another, store"))
		})
	}
}

// intervenes ends what a participant does: its lock is broken, and then the intent abandoned.
func intervenes(t *testing.T, g *WithT, one *coordinationtest.Region, types func(...string) (string, string, error)) {
	t.Helper()
	refused := func(want string, args ...string) {
		t.Helper()
		_, said, err := types(args...)
		g.Expect(err).To(HaveOccurred())
		g.Expect(said).To(ContainSubstring(want))
	}
	done := func(want string, args ...string) {
		t.Helper()
		shown, said, err := types(args...)
		g.Expect(err).NotTo(HaveOccurred(), said)
		g.Expect(shown).To(ContainSubstring(want))
	}
	refused("no action is in progress in store; see: ringmaster coordination status store", "abandon")
	refused("nobody holds the lock of store; see: ringmaster coordination status store", "break-lock", "store", "--yes")
	refused(`system "elsewhere" not found`, "abandon", "elsewhere")
	one.Busy = true
	one.Need(coordinationtest.Restart, "dc1-1", true)
	one.Begin(coordinationtest.Restart, coordination.Step{Do: "restart", Members: []coordination.MemberID{"dc1-1"}})

	refused("nothing was removed: add --yes if dc1-operator hangs", "break-lock")
	g.Expect(one.Reconcile().HoldsLock).To(BeTrue())
	done("The lock of dc1-operator, with token 1, was removed.", "break-lock", "--yes")
	refused("nobody holds the lock of store; see: ringmaster coordination abandon store", "break-lock")
	refused("nothing was removed: add --yes, and --reason", "abandon", "store")
	refused("nothing was removed: --reason is required", "abandon", "--yes")
	done("The Restart was abandoned at step 1 of 1.", "abandon", "--reason", "dc1-1 has no disk", "--yes")
	done("given up: abandoned by a person: dc1-1 has no disk", "status")
	delete(one.Plans, coordinationtest.Restart)
	g.Expect(one.Reconcile().View.Pending(coordinationtest.Restart)).To(HaveLen(1))
}

func TestCoordinationRefuses(t *testing.T) {
	r := rig.Shared(t)
	somebody := newPerson(t, r)
	garbage := filepath.Join(rig.TempDir(t), "ca.crt")
	if err := os.WriteFile(garbage, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	nobody := "http://127.0.0.1:1"
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"nobody answers":               {[]string{"--endpoints", nobody}, []string{"the etcd at " + nobody + " cannot be read", "connection refused", "etcdctl endpoint health --endpoints " + nobody}},
		"no cluster":                   {[]string{"--kubeconfig", "/nonexistent"}, []string{"/nonexistent"}},
		"both":                         {[]string{"--endpoints", nobody, "-n", "here"}, []string{"either --endpoints", "coordination status --help"}},
		"a certificate for nobody":     {[]string{"--cacert", garbage}, []string{"--cacert is for etcd: name its --endpoints"}},
		"a certificate without a key":  {[]string{"--endpoints", nobody, "--cert", garbage}, []string{"--cert and --key go together"}},
		"no certificate":               {[]string{"--endpoints", nobody, "--cacert", garbage}, []string{"there is no certificate in"}},
		"a file that is not there":     {[]string{"--endpoints", nobody, "--cacert", "/nonexistent"}, []string{"reading --cacert"}},
		"no address":                   {[]string{"--endpoints", ""}, []string{"--endpoints names no address"}},
		"something that is no address": {[]string{"--endpoints", "http://"}, []string{`"http://" is no address of an etcd`}},
		"a root that is no path":       {[]string{"--root", "/here/"}, []string{"nor end with a slash"}},
		"a name that is no name":       {[]string{"--store-name", "a/b"}, []string{"cannot be the name of a store"}},
		"a format that is none":        {[]string{"-o", "xml"}, []string{"table, wide, json, yaml"}},
		"too many systems":             {[]string{"a", "b"}, []string{"coordination status --help"}},
		"a system that is no name":     {[]string{"a/b", "-n", r.Namespace}, []string{"contains a slash"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, said, err := somebody.types("", append([]string{"coordination", "status"}, test.args...)...)
			g.Expect(err).To(HaveOccurred())
			for _, want := range test.want {
				g.Expect(said).To(ContainSubstring(want))
			}
		})
	}
	t.Run("no such command", func(t *testing.T) {
		g := NewWithT(t)
		_, said, err := somebody.types("", "coordination", "stats")
		g.Expect(err).To(HaveOccurred())
		g.Expect(said).To(ContainSubstring(`unknown command "stats"; did you mean status?`))
	})
}

// TestCoordinationWatch shows a change as soon as it is there, and nothing while there is none.
func TestCoordinationWatch(t *testing.T) {
	g := NewWithT(t)
	m := inEtcd(t)
	one := m.join(t, "store", "dc1")
	cmd := exec.CommandContext(t.Context(), rig.Build(t, "./cmd/ringmaster", rig.Race), append([]string{"coordination", "status", "store", "--watch"}, m.flags...)...)
	out, err := cmd.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cmd.Start()).To(Succeed())
	lines := bufio.NewScanner(out)
	reads := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("%q was not shown", want)
	}
	reads("Nothing is pending.")
	one.Need(coordinationtest.Removal, "dc1-1", true)
	reads("Removal is ready to begin: after its quiet window, if the system is healthy.")
	two := m.join(t, "store", "dc2")
	two.Settings.Mode, two.Busy = coordination.Local, true
	two.Need(coordinationtest.Restart, "dc2-1", true)
	two.Begin(coordinationtest.Restart, coordination.Step{Do: "restart", Members: []coordination.MemberID{"dc2-1"}})
	reads("dc2-operator holds the lock, with token 1")
	two.Busy = false
	two.Reconcile()
	reads("nobody holds the lock")
	g.Expect(cmd.Process.Signal(os.Interrupt)).To(Succeed())
	g.Expect(cmd.Wait()).To(Succeed())
}

// TestCoordinationTLS asks an etcd that wants to see a certificate, which is that of the control plane.
func TestCoordinationTLS(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	somebody := newPerson(t, r)
	pair, err := r.Issue(pki.Identity{User: "person"})
	g.Expect(err).NotTo(HaveOccurred())
	folder := rig.TempDir(t)
	cert, key := filepath.Join(folder, "client.crt"), filepath.Join(folder, "client.key")
	g.Expect(os.WriteFile(cert, pair.Certificate, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(key, pair.Key, 0o600)).To(Succeed())
	args := []string{"coordination", "status", "--endpoints", r.EtcdURL(), "--cacert", r.CAFile()}
	_, said, err := somebody.types("", append(args, "--cert", cert, "--key", key)...)
	g.Expect(err).To(HaveOccurred())
	g.Expect(said).To(ContainSubstring("no entries below"), "it has answered")
	_, said, err = somebody.types("", args...)
	g.Expect(err).To(HaveOccurred())
	g.Expect(said).To(ContainSubstring("cannot be read"))
}
