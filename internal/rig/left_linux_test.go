package rig_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
)

// TestNothingIsLeft kills a test run in the middle, in every way that somebody might, and sees its
// etcd, API server, processes and folders go.
func TestNothingIsLeft(t *testing.T) {
	forTests := testsOf(t, "TestProcessObeysSignals")
	args := append(forTests.Args[1:], "-test.count=1000")
	folder := t.TempDir()
	asMake := filepath.Join(folder, "make")
	if err := os.Symlink("/bin/sh", asMake); err != nil {
		t.Fatal(err)
	}

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
		"make is killed": {
			exec.Command(asMake, "-c", forTests.Path+" "+strings.Join(args, " ")+"; true"),
			func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
		},
		"it is interrupted": {
			exec.Command(forTests.Path, args...),
			func(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			temporary := t.TempDir()
			cmd := test.cmd
			cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
			g.Expect(cmd.Start()).To(Succeed())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })

			var family map[int]string
			g.Eventually(func() []string {
				family = descendants(t, cmd.Process.Pid)
				return names(family)
			}, "60s", "50ms").Should(ContainElements("etcd", "kube-apiserver", ContainSubstring("rig.test"), ContainSubstring("rig.test")))
			g.Expect(os.ReadDir(temporary)).NotTo(BeEmpty(), "it works in the folder that is looked at")

			g.Expect(test.kill(cmd.Process.Pid)).To(Succeed())
			g.Eventually(ended, "10s").Should(Receive())
			g.Eventually(func() []string { return names(alive(family)) }, "10s", "20ms").Should(BeEmpty())
			g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(temporary) }, "10s", "20ms").Should(BeEmpty())
		})
	}
}

// descendants returns the processes below pid, which their parents may outlive, by number.
func descendants(t *testing.T, pid int) map[int]string {
	t.Helper()
	found := map[int]string{}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		content, err := os.ReadFile(task)
		if err != nil {
			continue // it has just ended
		}
		for _, field := range strings.Fields(string(content)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			found[child] = commandName(child)
			for pid, name := range descendants(t, child) {
				found[pid] = name
			}
		}
	}
	return found
}

func commandName(pid int) string {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	first, _, _ := strings.Cut(string(content), "\x00")
	return filepath.Base(first)
}

// alive returns those that still run.
func alive(processes map[int]string) map[int]string {
	left := map[int]string{}
	for pid, name := range processes {
		if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && commandName(pid) == name {
			left[pid] = name
		}
	}
	return left
}

func names(processes map[int]string) []string {
	all := make([]string, 0, len(processes))
	for _, name := range processes {
		all = append(all, name)
	}
	return all
}
