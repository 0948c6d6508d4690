package webhosting

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// TestCommandResults expects a message only for a command that succeeded.
func TestCommandResults(t *testing.T) {
	g := NewWithT(t)
	options := supervisor.Options{Report: func(string, string, bool) {}, Changed: func() {}, Removed: func(string) {}, GracePeriod: time.Hour}
	d := &Demo{instances: supervisor.New(options), sharders: supervisor.New(options)}
	t.Cleanup(func() {
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		d.instances.Close(canceled)
	})
	log := filepath.Join(t.TempDir(), "log")
	g.Expect(d.instances.Add(supervisor.Program{Name: "a", Prepare: func(context.Context) (process.Spec, error) {
		return process.Spec{Name: "a", Path: "/bin/sh", Args: []string{"-c", `trap '' TERM; while :; do sleep 0.01; done`}, Log: log}, nil
	}})).To(Succeed())
	waitForPhase := func(phase supervisor.Phase) {
		t.Helper()
		g.Eventually(d.instances.Processes, "30s").Should(ConsistOf(HaveField("Phase", phase)))
	}
	succeeds := func(command, message string) {
		t.Helper()
		got, err := d.Do(t.Context(), control.Request{Command: command, Name: "a", Away: time.Hour}, nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got).To(ContainSubstring(message))
	}
	fails := func(commands ...string) {
		t.Helper()
		for _, command := range commands {
			message, err := d.Do(t.Context(), control.Request{Command: command, Name: "a"}, nil)
			g.Expect(err).To(HaveOccurred(), command)
			g.Expect(message).To(BeEmpty(), command)
		}
	}
	waitForPhase(supervisor.Running)
	fails(control.Resume)
	succeeds(control.Kill, "restarts in 1h0m0s")
	waitForPhase(supervisor.Waiting)
	fails(control.Kill, control.Pause)
	succeeds(control.Resume, "Resumed a")
	waitForPhase(supervisor.Running)
	succeeds(control.Stop, "stays stopped")
	succeeds(control.Kill, "was stopping. It stays stopped")
	waitForPhase(supervisor.Stopped)
	fails(control.Kill, control.Stop, control.Pause)
}
