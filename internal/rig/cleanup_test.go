package rig_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestNothingOutlivesTheTestRun kills a test run in different ways, after which its etcd, API
// server, processes and folders are gone.
func TestNothingOutlivesTheTestRun(t *testing.T) {
	forTests := testsOf(t, "TestProcessObeysSignals")
	args := slices.Concat(forTests.Args[1:], []string{"-test.count=1000"})
	folder := t.TempDir()
	// Shells under the names of those who run tests, and what a shell is asked to run under them.
	asMake, asGo := filepath.Join(folder, "make"), filepath.Join(folder, "go")
	for _, name := range []string{asMake, asGo} {
		if err := os.Symlink("/bin/sh", name); err != nil {
			t.Fatal(err)
		}
	}
	run := forTests.Path + " " + strings.Join(args, " ")
	nextPackage := "; sleep 1000"

	for name, test := range map[string]struct {
		cmd  *exec.Cmd
		kill func(pid int) error
	}{
		"the test binary is killed": {
			exec.Command(forTests.Path, args...),
			func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
		},
		"its process group is killed": {
			exec.Command(forTests.Path, args...),
			func(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) },
		},
		"go is killed": {
			exec.Command(asGo, "-c", run+nextPackage),
			func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
		},
		"make is killed, above go": {
			exec.Command(asMake, "-c", asGo+" -c '"+run+nextPackage+"'; true"),
			func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
		},
		"it is interrupted": {
			exec.Command(forTests.Path, args...),
			func(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			temporary := rig.TempDir(t)
			cmd := test.cmd
			cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			g.Expect(cmd.Start()).To(Succeed())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })

			var descendants map[int]string
			g.Eventually(func() []string {
				descendants = rig.Descendants(t, cmd.Process.Pid)
				return slices.Collect(maps.Values(descendants))
			}, "3m", "50ms").Should(ContainElements("etcd", "kube-apiserver", HaveSuffix(".test"), HaveSuffix(".test")),
				"the control plane, a process of the test and the reaper")
			g.Expect(os.ReadDir(temporary)).NotTo(BeEmpty(), "it works in the folder that is looked at")

			g.Expect(test.kill(cmd.Process.Pid)).To(Succeed())
			g.Eventually(ended, "10s").Should(Receive())
			g.Eventually(func() map[int]string { return rig.Alive(descendants) }, "10s", "20ms").Should(BeEmpty())
			g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(temporary) }, "10s", "20ms").Should(BeEmpty())
		})
	}
}
