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

// The tests of coordinationstatus check the output. These tests check the commands.

// sharedStore is a store with the flags that select it.
type sharedStore struct {
	kv.Store
	flags []string
}

func inEtcd(t *testing.T) sharedStore {
	t.Helper()
	endpoint := "http://" + rig.Etcd(t, 1)[0].Endpoint
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // its etcd may be gone
	return sharedStore{etcdstore.New(client, etcdstore.Options{}), []string{"--endpoints", endpoint}}
}

func inNamespace(t *testing.T) sharedStore {
	t.Helper()
	r := rig.Shared(t)
	clients, err := kubernetes.NewForConfig(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	store, err := kubestore.New(clients, kubestore.Options{Namespace: r.Namespace, Name: "shared"})
	if err != nil {
		t.Fatal(err)
	}
	return sharedStore{store, []string{"--namespace", r.Namespace, "--store-name", "shared"}}
}

// join registers a participant of a system.
func (s sharedStore) join(t *testing.T, system, prefix string) *coordinationtest.Region {
	t.Helper()
	region := coordinationtest.Join(t, s, system, prefix, clock.RealClock{})
	region.Reconcile()
	return region
}

func TestCoordination(t *testing.T) {
	user := newCLIUser(t, rig.Shared(t))
	for name, open := range map[string]func(*testing.T) sharedStore{"etcd": inEtcd, "namespace": inNamespace} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			store := open(t)
			run := func(args ...string) (stdout, stderr string, err error) {
				return user.ringmaster("", append(append([]string{"coordination"}, args...), store.flags...)...)
			}
			_, stderr, err := run("status")
			g.Expect(err).To(HaveOccurred())
			g.Expect(stderr).To(And(ContainSubstring("no entries below"), ContainSubstring("check --endpoints")))

			dc1, dc2 := store.join(t, "store", "dc1"), store.join(t, "store", "dc2")
			dc1.Need(coordinationtest.Restart, "dc1-1", false)
			dc2.Need(coordinationtest.Restart, "dc2-1", false)
			stdout, stderr, err := run("status", "store")
			g.Expect(err).NotTo(HaveOccurred(), stderr)
			g.Expect(stdout).To(And(HavePrefix("store: 2 participants, nobody holds the lock\n"), Not(ContainSubstring("\x1b")),
				MatchRegexp(`dc2-operator +dc2 +global +0 +makes dc2-1 ready for the Restart`),
				ContainSubstring("Restart waits for dc1-1: it is not ready; dc2-1: it is not ready.")))
			coloured, stderr, err := run("status", "--color=always", "-o", "wide")
			g.Expect(err).NotTo(HaveOccurred(), stderr)
			g.Expect(coloured).To(ContainSubstring("\x1b[33mnot ready\x1b[0m"))
			asJSON, stderr, err := run("status", "-o", "json")
			g.Expect(err).NotTo(HaveOccurred(), stderr)
			var read struct{ Systems []coordination.View }
			g.Expect(json.Unmarshal([]byte(asJSON), &read)).To(Succeed())
			g.Expect(read.Systems[0].Sets["pendingForRestart"]).To(HaveLen(2))

			_, stderr, err = run("status", "elsewhere")
			g.Expect(err).To(HaveOccurred())
			g.Expect(stderr).To(And(ContainSubstring(`system "elsewhere" not found`), ContainSubstring("available: store")))

			// dc2 will never return.
			_, stderr, err = run("forget", "dc2", "--yes")
			g.Expect(err).To(HaveOccurred())
			g.Expect(stderr).To(ContainSubstring("dc2-operator with the prefix dc2 is alive"))
			g.Expect(dc2.Close(t.Context())).To(Succeed())
			stdout, stderr, err = run("forget", "dc2")
			g.Expect(err).To(HaveOccurred())
			g.Expect(stdout).To(ContainSubstring("To be removed in store: the entries of dc2: dc2-1 in pendingForRestart."))
			g.Expect(stderr).To(And(ContainSubstring("nothing was changed"), ContainSubstring("add --yes")))
			stdout, stderr, err = run("forget", "dc2", "--dry-run")
			g.Expect(err).NotTo(HaveOccurred(), stderr)
			g.Expect(stdout).To(And(ContainSubstring("the entries of dc2"), ContainSubstring("Nothing was changed.")))
			stdout, stderr, err = run("forget", "store", "dc2", "--yes")
			g.Expect(err).NotTo(HaveOccurred(), stderr)
			g.Expect(stdout).To(ContainSubstring("The entries of dc2 were removed."))
			g.Expect(dc1.Reconcile().View.Pending(coordinationtest.Restart)).To(HaveLen(1))
			_, stderr, err = run("forget", "dc2", "--yes")
			g.Expect(err).To(HaveOccurred())
			g.Expect(stderr).To(ContainSubstring("no entries of dc2 in store; no dead participant has entries"))

			abandonAndBreakLock(t, g, dc1, run)

			store.join(t, "another", "dc1")
			stdout, stderr, err = run("status")
			g.Expect(err).NotTo(HaveOccurred(), stderr)
			g.Expect(stdout).To(And(HavePrefix("another: 1 participant"), ContainSubstring("\nstore: 1 participant")))
			_, stderr, err = run("forget", "dc2")
			g.Expect(err).To(HaveOccurred())
			g.Expect(stderr).To(ContainSubstring("name one before the prefix: another, store"))
		})
	}
}

// abandonAndBreakLock breaks the lock of a participant, and then abandons its intent.
func abandonAndBreakLock(t *testing.T, g *WithT, dc1 *coordinationtest.Region, run func(...string) (string, string, error)) {
	t.Helper()
	refused := func(want string, args ...string) {
		t.Helper()
		_, stderr, err := run(args...)
		g.Expect(err).To(HaveOccurred())
		g.Expect(stderr).To(ContainSubstring(want))
	}
	done := func(want string, args ...string) {
		t.Helper()
		stdout, stderr, err := run(args...)
		g.Expect(err).NotTo(HaveOccurred(), stderr)
		g.Expect(stdout).To(ContainSubstring(want))
	}
	refused("no action is in progress in store; see: ringmaster coordination status store", "abandon")
	refused("nobody holds the lock of store; see: ringmaster coordination status store", "break-lock", "store", "--yes")
	refused(`system "elsewhere" not found`, "abandon", "elsewhere")
	dc1.Busy = true
	dc1.Need(coordinationtest.Restart, "dc1-1", true)
	dc1.Begin(coordinationtest.Restart, coordination.Step{Do: "restart", Members: []coordination.MemberID{"dc1-1"}})

	refused("add --yes", "break-lock")
	done("Nothing was changed.", "break-lock", "--dry-run")
	g.Expect(dc1.Reconcile().HoldsLock).To(BeTrue())
	done("The lock of dc1-operator, with token 1, was removed.", "break-lock", "--yes")
	refused("nobody holds the lock of store; see: ringmaster coordination abandon store", "break-lock")
	refused("nothing was changed: --reason is required", "abandon", "store")
	refused("add --yes", "abandon", "store", "--reason", "dc1-1 has no disk")
	done("Nothing was changed.", "abandon", "store", "--dry-run")
	refused("nothing was changed: --reason is required", "abandon", "--yes")
	done("The Restart was abandoned at step 1 of 1.", "abandon", "--reason", "dc1-1 has no disk", "--yes")
	done("given up: abandoned by a person: dc1-1 has no disk", "status")
	delete(dc1.Plans, coordinationtest.Restart)
	g.Expect(dc1.Reconcile().View.Pending(coordinationtest.Restart)).To(HaveLen(1))
}

func TestCoordinationRefuses(t *testing.T) {
	r := rig.Shared(t)
	user := newCLIUser(t, r)
	garbage := filepath.Join(rig.TempDir(t), "ca.crt")
	if err := os.WriteFile(garbage, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	closed := "http://127.0.0.1:1"
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"connection refused":            {[]string{"--endpoints", closed}, []string{"cannot read etcd at " + closed, "connection refused", "etcdctl endpoint health --endpoints " + closed}},
		"no cluster":                    {[]string{"--kubeconfig", "/nonexistent"}, []string{"/nonexistent"}},
		"etcd and namespace":            {[]string{"--endpoints", closed, "-n", "here"}, []string{"set either --endpoints", "coordination status --help"}},
		"a certificate without etcd":    {[]string{"--cacert", garbage}, []string{"--cacert is for etcd: set --endpoints too"}},
		"a certificate without a key":   {[]string{"--endpoints", closed, "--cert", garbage}, []string{"set both --cert and --key"}},
		"a CA file without certificate": {[]string{"--endpoints", closed, "--cacert", garbage}, []string{"no certificate in"}},
		"a missing CA file":             {[]string{"--endpoints", closed, "--cacert", "/nonexistent"}, []string{"reading --cacert"}},
		"empty endpoints":               {[]string{"--endpoints", ""}, []string{"--endpoints is empty"}},
		"an invalid endpoint":           {[]string{"--endpoints", "http://"}, []string{`invalid endpoint "http://"`}},
		"an invalid root":               {[]string{"--root", "/here/"}, []string{"nor end with a slash"}},
		"an invalid store name":         {[]string{"--store-name", "a/b"}, []string{"cannot be the name of a store"}},
		"an unknown format":             {[]string{"-o", "xml"}, []string{"table, wide, json, yaml"}},
		"too many systems":              {[]string{"a", "b"}, []string{"coordination status --help"}},
		"an invalid system name":        {[]string{"a/b", "-n", r.Namespace}, []string{"contains a slash"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, stderr, err := user.ringmaster("", append([]string{"coordination", "status"}, test.args...)...)
			g.Expect(err).To(HaveOccurred())
			for _, want := range test.want {
				g.Expect(stderr).To(ContainSubstring(want))
			}
		})
	}
	t.Run("no such command", func(t *testing.T) {
		g := NewWithT(t)
		_, stderr, err := user.ringmaster("", "coordination", "stats")
		g.Expect(err).To(HaveOccurred())
		g.Expect(stderr).To(ContainSubstring(`unknown command "stats"; did you mean status?`))
	})
}

// TestCoordinationWatch shows each change at once, and nothing while nothing changes.
func TestCoordinationWatch(t *testing.T) {
	g := NewWithT(t)
	store := inEtcd(t)
	dc1 := store.join(t, "store", "dc1")
	cmd := exec.CommandContext(t.Context(), rig.Build(t, "./cmd/ringmaster", rig.Race), append([]string{"coordination", "status", "store", "--watch"}, store.flags...)...)
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
		t.Fatalf("%q not found in the output", want)
	}
	reads("Nothing is pending.")
	dc1.Need(coordinationtest.Removal, "dc1-1", true)
	reads("Removal is ready to begin: after its quiet window, if the system is healthy.")
	dc2 := store.join(t, "store", "dc2")
	dc2.Settings.Mode, dc2.Busy = coordination.Local, true
	dc2.Need(coordinationtest.Restart, "dc2-1", true)
	dc2.Begin(coordinationtest.Restart, coordination.Step{Do: "restart", Members: []coordination.MemberID{"dc2-1"}})
	reads("dc2-operator holds the lock, with token 1")
	dc2.Busy = false
	dc2.Reconcile()
	reads("nobody holds the lock")
	g.Expect(cmd.Process.Signal(os.Interrupt)).To(Succeed())
	g.Expect(cmd.Wait()).To(Succeed())
}

// TestCoordinationTLS reads the etcd of the control plane, which requires a client certificate.
func TestCoordinationTLS(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	user := newCLIUser(t, r)
	pair, err := r.Issue(pki.Identity{User: "person"})
	g.Expect(err).NotTo(HaveOccurred())
	folder := rig.TempDir(t)
	cert, key := filepath.Join(folder, "client.crt"), filepath.Join(folder, "client.key")
	g.Expect(os.WriteFile(cert, pair.Certificate, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(key, pair.Key, 0o600)).To(Succeed())
	args := []string{"coordination", "status", "--endpoints", r.EtcdURL(), "--cacert", r.CAFile()}
	_, stderr, err := user.ringmaster("", append(args, "--cert", cert, "--key", key)...)
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(ContainSubstring("no entries below"), "etcd has answered")
	_, stderr, err = user.ringmaster("", args...)
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(ContainSubstring("cannot read etcd"))
}
