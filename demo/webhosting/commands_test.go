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

// TestAnswers tells what was done only if it was, and not of one that is to stop that it comes back.
func TestAnswers(t *testing.T) {
	g := NewWithT(t)
	told := supervisor.Options{Report: func(string, string, bool) {}, Changed: func() {}, Gone: func(string) {}, Grace: time.Hour}
	d := &Demo{instances: supervisor.New(told), sharders: supervisor.New(told)}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		d.instances.Close(ended)
	})
	log := filepath.Join(t.TempDir(), "log")
	g.Expect(d.instances.Add(supervisor.Program{Name: "a", Prepare: func(context.Context) (process.Spec, error) {
		return process.Spec{Name: "a", Path: "/bin/sh", Args: []string{"-c", `trap '' TERM; while :; do sleep 0.01; done`}, Log: log}, nil
	}})).To(Succeed())
	becomes := func(phase supervisor.Phase) {
		t.Helper()
		g.Eventually(d.instances.Members, "30s").Should(ConsistOf(HaveField("Phase", phase)))
	}
	does := func(command, says string) {
		t.Helper()
		said, err := d.Do(t.Context(), control.Request{Command: command, Name: "a", Away: time.Hour}, nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(said).To(ContainSubstring(says))
	}
	refuses := func(commands ...string) {
		t.Helper()
		for _, command := range commands {
			said, err := d.Do(t.Context(), control.Request{Command: command, Name: "a"}, nil)
			g.Expect(err).To(HaveOccurred(), command)
			g.Expect(said).To(BeEmpty(), command)
		}
	}
	becomes(supervisor.Running)
	refuses(control.Resume)
	does(control.Kill, "started again in 1h0m0s")
	becomes(supervisor.Waiting)
	refuses(control.Kill, control.Pause)
	does(control.Resume, "goes on")
	becomes(supervisor.Running)
	does(control.Stop, "stays away")
	does(control.Kill, "about to stop. It stays away")
	becomes(supervisor.Stopped)
	refuses(control.Kill, control.Stop, control.Pause)
}
