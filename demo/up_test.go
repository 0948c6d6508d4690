package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/process"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// timeout is long enough for a busy machine.
const timeout = rig.Timeout

// bare are the arguments for a control plane without an example.
var bare = []string{"--example", "none"}

// up starts 'ringmaster demo up' with tmp as the folder for temporary files.
func up(t *testing.T, tmp string, args ...string) *process.Process {
	t.Helper()
	return start(t, tmp, rig.Build(t, "./demo", rig.Race), append([]string{"up", "--assets", rig.Assets(t)}, args...)...)
}

// start starts a program in the same environment.
func start(t *testing.T, tmp, program string, args ...string) *process.Process {
	t.Helper()
	p, err := process.Start(process.Spec{
		Name: "ringmaster",
		Path: program,
		Args: args,
		Env:  append(os.Environ(), "TMPDIR="+tmp),
		Log:  filepath.Join(rig.TempDir(t), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		if t.Failed() {
			t.Logf("ringmaster wrote:\n%s", p.Tail(50))
		}
	})
	return p
}

var setupLine = regexp.MustCompile(`(?m)^  \. (\S+)/env$`)

// ready waits until the demo is ready, and returns its kubeconfig.
func ready(t *testing.T, p *process.Process) (kubeconfig string) {
	t.Helper()
	NewWithT(t).Eventually(func() []string {
		return setupLine.FindStringSubmatch(p.Tail(50))
	}, timeout, "50ms").Should(HaveLen(2), "the setup command is printed")
	return filepath.Join(setupLine.FindStringSubmatch(p.Tail(50))[1], "kubeconfig")
}

// kubectl returns a function that runs the bundled kubectl.
func kubectl(t *testing.T, kubeconfig string, args ...string) func() (string, error) {
	t.Helper()
	return func() (string, error) {
		cmd := exec.Command(filepath.Join(rig.Assets(t), "kubectl"), args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

func TestUpStopsCleanly(t *testing.T) {
	g := NewWithT(t)
	tmp := rig.TempDir(t)
	p := up(t, tmp, bare...)
	kubeconfig := ready(t, p)

	g.Expect(kubectl(t, kubeconfig, "version")()).To(MatchRegexp(`Server Version: v1\.\d+\.\d+`))
	g.Expect(kubectl(t, kubeconfig, "create", "deployment", "hello", "--image=hello")()).To(ContainSubstring("created"))
	g.Eventually(kubectl(t, kubeconfig, "get", "replicasets", "-A"), "60s").Should(ContainSubstring("hello-"))

	children := rig.Descendants(t, p.PID())
	g.Expect(children).To(ContainElements("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"))
	g.Expect(p.Signal(os.Interrupt)).To(Succeed())
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	g.Expect(p.Wait(ctx)).To(Succeed(), "the exit code after Ctrl-C is 0")
	g.Expect(p.Tail(1)).To(HavePrefix("Stopped in"))
	g.Eventually(func() map[int]string { return rig.Alive(children) }, "10s").Should(BeEmpty())
	g.Expect(os.ReadDir(tmp)).To(BeEmpty(), "the data was deleted")
}

func TestUpKeepsData(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(rig.TempDir(t), "data")
	first := up(t, rig.TempDir(t), append(bare, "--data-dir", dir)...)
	kubeconfig := ready(t, first)
	g.Expect(kubectl(t, kubeconfig, "create", "namespace", "kept")()).To(ContainSubstring("created"))

	second := up(t, rig.TempDir(t), append(bare, "--data-dir", dir)...)
	g.Expect(second.Wait(t.Context())).NotTo(Succeed())
	g.Expect(second.Tail(1)).To(And(ContainSubstring("already runs"), ContainSubstring(kubeconfig)))

	// After SIGKILL the folder must not stay locked, and the data must not be lost.
	g.Expect(first.Kill()).To(Succeed())
	third := up(t, rig.TempDir(t), append(bare, "--data-dir", dir)...)
	g.Expect(kubectl(t, ready(t, third), "get", "namespace", "kept")()).To(ContainSubstring("Active"))
}

func TestSecondSignalStopsImmediately(t *testing.T) {
	for name, test := range map[string]struct {
		signal syscall.Signal
		start  func(t *testing.T, tmp string) *process.Process
		want   string
	}{
		"SIGTERM": {syscall.SIGTERM, func(t *testing.T, tmp string) *process.Process {
			t.Helper()
			return up(t, tmp, bare...)
		}, "exit status 143"},
		"SIGINT, ignored by the parent": {syscall.SIGINT, func(t *testing.T, tmp string) *process.Process {
			t.Helper()
			// A shell ignores SIGINT in background processes of a script.
			shell := []string{"-c", `trap "" INT; exec "$0" "$@"`, rig.Build(t, "./demo", rig.Race), "up", "--assets", rig.Assets(t)}
			return start(t, tmp, "/bin/sh", append(shell, bare...)...)
		}, "exit status 130"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tmp := rig.TempDir(t)
			p := test.start(t, tmp)
			ready(t, p)
			children := rig.Descendants(t, p.PID())
			for pid, name := range children {
				if name == "kube-apiserver" { // so that it cannot stop gracefully
					g.Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
				}
			}
			g.Expect(p.Signal(test.signal)).To(Succeed())
			g.Eventually(func() string { return p.Tail(3) }, "10s", "10ms").Should(ContainSubstring("Stopping."))
			g.Expect(p.Signal(test.signal)).To(Succeed())
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			g.Expect(p.Wait(ctx)).To(MatchError(test.want))
			g.Expect(p.Tail(1)).To(Equal("Ending at once."))
			g.Eventually(func() map[int]string { return rig.Alive(children) }, "10s").Should(BeEmpty())
			g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(tmp) }, "10s").Should(BeEmpty())
		})
	}
}

// TestStopDuringStart expects that nothing is left.
func TestStopDuringStart(t *testing.T) {
	g := NewWithT(t)
	tmp := rig.TempDir(t)
	p := up(t, tmp, bare...)
	g.Eventually(func() string { return p.Tail(3) }, timeout, "1ms").Should(ContainSubstring("starting"))
	g.Expect(p.Signal(os.Interrupt)).To(Succeed())
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	g.Expect(p.Wait(ctx)).To(Succeed(), "the exit code after Ctrl-C is 0")
	g.Expect(p.Tail(1)).To(HavePrefix("Stopped"))
	g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(tmp) }, "10s").Should(BeEmpty())
}

func TestInvalidOptions(t *testing.T) {
	other := rig.TempDir(t)
	if err := os.WriteFile(filepath.Join(other, "thesis.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a folder with other files":     {append(bare, "--data-dir", other), "choose an empty folder"},
		"an invalid port":               {append(bare, "--port", "70000"), "choose 1 to 65535"},
		"no programs":                   {[]string{"--assets", other}, "make kubernetes"},
		"an unknown flag":               {[]string{"--dater-dir", other}, "ringmaster demo up --help"},
		"an argument":                   {[]string{"everything"}, "unknown command"},
		"an empty --data-dir":           {[]string{"--data-dir", ""}, "omit --data-dir"},
		"no sample operator":            {[]string{"--programs", other}, "make build"},
		"an unknown example":            {[]string{"--example", "zoo"}, "available: webhosting, etcdcluster, or none"},
		"no operator of the regions":    {[]string{"--example", "etcdcluster", "--programs", other}, "program etcdcluster not found"},
		"a mode of another example":     {[]string{"--example", "etcdcluster", "--programs", regionPrograms(t), "--mode", "shard"}, "available: global, local"},
		"a flag of another example":     {[]string{"--example", "etcdcluster", "--shards", "5"}, "--shards is only valid with --example webhosting"},
		"an unknown mode":               {[]string{"--mode", "chaos"}, "available: lead, shard, in-process"},
		"too many shards":               {[]string{"--mode", "lead", "--programs", programs(t), "--shards", "1000"}, "choose 0 to 32"},
		"a negative number of websites": {[]string{"--programs", programs(t), "--websites", "-1"}, "choose 0 to"},
		"an invalid page port":          {[]string{"--programs", programs(t), "--page-port", "70000"}, "--page-port 70000 is out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tmp := rig.TempDir(t)
			p := up(t, tmp, test.args...)
			g.Expect(p.Wait(t.Context())).NotTo(Succeed())
			g.Expect(p.Tail(20)).To(ContainSubstring(test.want))
			g.Expect(strings.Count(p.Tail(20), "Error:")).To(Equal(1), "the error is printed once")
			g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(tmp) }, "10s").Should(BeEmpty())
		})
	}
	if content, err := os.ReadFile(filepath.Join(other, "thesis.txt")); err != nil || string(content) != "mine" {
		t.Errorf("the file of the user is now %q: %v", content, err)
	}
}
