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

// patience is how long something may take on a machine that does much else.
const patience = rig.Timeout

// bare is a control plane without an example.
var bare = []string{"--example", "none"}

// up starts the real binary. It finds its temporary folder in TMPDIR.
func up(t *testing.T, tmp string, args ...string) *process.Process {
	t.Helper()
	return start(t, tmp, rig.Build(t, "./demo", rig.Race), append([]string{"up", "--assets", rig.Assets(t)}, args...)...)
}

// start starts a program as up does.
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

// ready waits until it says where its kubeconfig is.
func ready(t *testing.T, p *process.Process) (kubeconfig string) {
	t.Helper()
	NewWithT(t).Eventually(func() []string {
		return setupLine.FindStringSubmatch(p.Tail(50))
	}, patience, "50ms").Should(HaveLen(2), "what other terminals need is printed")
	return filepath.Join(setupLine.FindStringSubmatch(p.Tail(50))[1], "kubeconfig")
}

// kubectl runs the bundled kubectl.
func kubectl(t *testing.T, kubeconfig string, args ...string) func() (string, error) {
	t.Helper()
	return func() (string, error) {
		cmd := exec.Command(filepath.Join(rig.Assets(t), "kubectl"), args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

func TestUpWorksAndEndsCleanly(t *testing.T) {
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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g.Expect(p.Wait(ctx)).To(Succeed(), "Ctrl-C is no failure")
	g.Expect(p.Tail(1)).To(HavePrefix("Stopped in"))
	g.Eventually(func() map[int]string { return rig.Alive(children) }, "10s").Should(BeEmpty())
	g.Expect(os.ReadDir(tmp)).To(BeEmpty(), "the data was thrown away")
}

func TestUpKeepsData(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(rig.TempDir(t), "data")
	first := up(t, rig.TempDir(t), append(bare, "--data-dir", dir)...)
	kubeconfig := ready(t, first)
	g.Expect(kubectl(t, kubeconfig, "create", "namespace", "kept")()).To(ContainSubstring("created"))

	second := up(t, rig.TempDir(t), append(bare, "--data-dir", dir)...)
	g.Expect(second.Wait(t.Context())).NotTo(Succeed())
	g.Expect(second.Tail(1)).To(And(ContainSubstring("running already"), ContainSubstring(kubeconfig)))

	// Killed, not stopped: the folder must not be locked for ever, nor the data be lost.
	g.Expect(first.Kill()).To(Succeed())
	third := up(t, rig.TempDir(t), append(bare, "--data-dir", dir)...)
	g.Expect(kubectl(t, ready(t, third), "get", "namespace", "kept")()).To(ContainSubstring("Active"))
}

func TestUpEndsAtOnceWhenAskedTwice(t *testing.T) {
	for name, test := range map[string]struct {
		signal syscall.Signal
		start  func(t *testing.T, tmp string) *process.Process
		want   string
	}{
		"terminated": {syscall.SIGTERM, func(t *testing.T, tmp string) *process.Process {
			t.Helper()
			return up(t, tmp, bare...)
		}, "exit status 143"},
		"Ctrl-C, which was ignored when it was started": {syscall.SIGINT, func(t *testing.T, tmp string) *process.Process {
			t.Helper()
			// As a script does with what it puts into the background.
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
				if name == "kube-apiserver" { // so that there is no end in good order
					g.Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
				}
			}
			g.Expect(p.Signal(test.signal)).To(Succeed())
			g.Eventually(func() string { return p.Tail(3) }, "10s", "10ms").Should(ContainSubstring("Stopping."))
			g.Expect(p.Signal(test.signal)).To(Succeed())
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			g.Expect(p.Wait(ctx)).To(MatchError(test.want))
			g.Expect(p.Tail(1)).To(Equal("Ending at once."))
			g.Eventually(func() map[int]string { return rig.Alive(children) }, "10s").Should(BeEmpty())
			g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(tmp) }, "10s").Should(BeEmpty())
		})
	}
}

// TestUpIsStoppedBeforeItIsUp says so, and leaves nothing behind.
func TestUpIsStoppedBeforeItIsUp(t *testing.T) {
	g := NewWithT(t)
	tmp := rig.TempDir(t)
	p := up(t, tmp, bare...)
	g.Eventually(func() string { return p.Tail(3) }, patience, "1ms").Should(ContainSubstring("starting"))
	g.Expect(p.Signal(os.Interrupt)).To(Succeed())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g.Expect(p.Wait(ctx)).To(Succeed(), "Ctrl-C is no failure")
	g.Expect(p.Tail(1)).To(HavePrefix("Stopped"))
	g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(tmp) }, "10s").Should(BeEmpty())
}

func TestUpRefuses(t *testing.T) {
	foreign := rig.TempDir(t)
	if err := os.WriteFile(filepath.Join(foreign, "thesis.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a folder that holds something else": {append(bare, "--data-dir", foreign), "name an empty folder"},
		"a port that does not exist":         {append(bare, "--port", "70000"), "choose one from 1 to 65535"},
		"no programs":                        {[]string{"--assets", foreign}, "make kubernetes"},
		"an unknown flag":                    {[]string{"--dater-dir", foreign}, "ringmaster demo up --help"},
		"an argument":                        {[]string{"everything"}, "unknown command"},
		"no name for the data folder":        {[]string{"--data-dir", ""}, "leave --data-dir out"},
		"no programs of ours":                {[]string{"--programs", foreign}, "make build"},
		"an unknown example":                 {[]string{"--example", "zoo"}, "choose webhosting, etcdcluster, or none"},
		"regions without our program":        {[]string{"--example", "etcdcluster", "--programs", foreign}, "the program etcdcluster is missing"},
		"a mode of another example":          {[]string{"--example", "etcdcluster", "--programs", regionPrograms(t), "--mode", "shard"}, "choose global or local"},
		"a flag of another example":          {[]string{"--example", "etcdcluster", "--shards", "5"}, "--shards is for --example webhosting"},
		"an unknown mode":                    {[]string{"--mode", "chaos"}, "choose lead, shard or in-process"},
		"too many shards":                    {[]string{"--mode", "lead", "--programs", programs(t), "--shards", "1000"}, "choose from 0 to 32"},
		"a negative number of websites":      {[]string{"--programs", programs(t), "--websites", "-1"}, "choose from 0 to"},
		"a page port that does not exist":    {[]string{"--programs", programs(t), "--page-port", "70000"}, "page port"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tmp := rig.TempDir(t)
			p := up(t, tmp, test.args...)
			g.Expect(p.Wait(t.Context())).NotTo(Succeed())
			g.Expect(p.Tail(20)).To(ContainSubstring(test.want))
			g.Expect(strings.Count(p.Tail(20), "Error:")).To(Equal(1), "it is said once")
			g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(tmp) }, "10s").Should(BeEmpty())
		})
	}
	if content, err := os.ReadFile(filepath.Join(foreign, "thesis.txt")); err != nil || string(content) != "mine" {
		t.Errorf("the user's file is now %q: %v", content, err)
	}
}
