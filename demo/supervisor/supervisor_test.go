package supervisor_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// exitsOnSIGTERM is a script that exits on SIGTERM, ignoresSIGTERM one that does not.
const (
	exitsOnSIGTERM = `trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done`
	ignoresSIGTERM = `trap '' TERM; echo up; while :; do sleep 0.01; done`
)

// fixture is a supervisor of shell scripts, and what it reported.
type fixture struct {
	*WithT
	*supervisor.Supervisor
	t *testing.T

	mu                sync.Mutex
	reports, removals []string
}

func setUp(t *testing.T, gracePeriod time.Duration) *fixture {
	t.Helper()
	f := &fixture{WithT: NewWithT(t), t: t}
	f.SetDefaultEventuallyTimeout(2 * time.Minute)
	f.Supervisor = supervisor.New(supervisor.Options{Report: f.report, Changed: func() {}, Removed: f.recordRemoval, GracePeriod: gracePeriod})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		f.Close(ctx)
		f.Expect(f.Processes()).To(BeEmpty())
	})
	return f
}

func (f *fixture) report(name, message string, failure bool) {
	if failure != (strings.HasPrefix(message, "crashed") || strings.HasPrefix(message, "ended")) {
		f.t.Errorf("%s %s: reported as failure: %t", name, message, failure)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, name+" "+message)
}

func (f *fixture) recordRemoval(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removals = append(f.removals, name)
}

func (f *fixture) removed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.removals)
}

func (f *fixture) reported() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.reports)
}

// Add adds a program, which must succeed.
func (f *fixture) Add(program supervisor.Program) {
	f.t.Helper()
	f.Expect(f.Supervisor.Add(program)).To(Succeed())
}

// script returns a program whose first preparations fail with the given errors.
func (f *fixture) script(name, text string, failures ...error) supervisor.Program {
	log := filepath.Join(f.t.TempDir(), "log")
	return supervisor.Program{Name: name, Prepare: func(context.Context) (process.Spec, error) {
		if len(failures) > 0 {
			err := failures[0]
			failures = failures[1:]
			return process.Spec{}, err
		}
		return process.Spec{Name: name, Path: "/bin/sh", Args: []string{"-c", text}, Log: log}, nil
	}}
}

func (f *fixture) status(name string) supervisor.ProcessStatus {
	for _, m := range f.Processes() {
		if m.Name == name {
			return m
		}
	}
	return supervisor.ProcessStatus{}
}

// waitForPhase waits until a process is in a phase, and returns its status.
func (f *fixture) waitForPhase(name string, phase supervisor.Phase) supervisor.ProcessStatus {
	f.t.Helper()
	f.Eventually(func() supervisor.Phase { return f.status(name).Phase }).Should(Equal(phase))
	return f.status(name)
}

func TestKilledProcessIsRestarted(t *testing.T) {
	f := setUp(t, time.Minute)
	f.Add(f.script("a", exitsOnSIGTERM))
	before := f.waitForPhase("a", supervisor.Running)
	f.Expect(f.Kill("a", time.Hour)).To(Succeed())
	waiting := f.waitForPhase("a", supervisor.Waiting)
	f.Expect(waiting).To(And(HaveField("Note", "killed by you"), HaveField("PID", 0), HaveField("Restarts", 1)))
	f.Expect(waiting.RestartAt).To(BeTemporally(">", time.Now().Add(50*time.Minute)))
	f.Expect(f.Kill("a", 0)).To(MatchError(ContainSubstring("not running (killed by you)")))

	f.Expect(f.Resume("a")).To(Succeed(), "resume skips the delay")
	after := f.waitForPhase("a", supervisor.Running)
	f.Expect(after.PID).NotTo(Equal(before.PID))
	f.Expect(f.reported()).To(ContainElement("a killed by you; restarts in 1h0m0s"))
}

func TestStoppedProcessStaysStopped(t *testing.T) {
	f := setUp(t, time.Minute)
	f.Add(f.script("a", exitsOnSIGTERM))
	f.waitForPhase("a", supervisor.Running)
	f.Expect(f.Stop("a")).To(Succeed())
	f.Expect(f.waitForPhase("a", supervisor.Stopped)).To(And(HaveField("Note", "stopped by you"), HaveField("Restarts", 0)))
	f.Expect(f.Stop("a")).To(MatchError(ContainSubstring("a is already stopped")))
	f.Expect(f.Pause("a")).To(MatchError(ContainSubstring("start it with 'resume'")))
	f.Expect(f.Resume("a")).To(Succeed())
	f.waitForPhase("a", supervisor.Running)
}

func TestStopDuringBackoff(t *testing.T) {
	f := setUp(t, time.Minute)
	f.Add(f.script("a", exitsOnSIGTERM))
	f.waitForPhase("a", supervisor.Running)
	f.Expect(f.Kill("a", time.Hour)).To(Succeed())
	f.waitForPhase("a", supervisor.Waiting)
	f.Expect(f.Stop("a")).To(Succeed())
	f.waitForPhase("a", supervisor.Stopped)
	f.Consistently(func() supervisor.Phase { return f.status("a").Phase }, "100ms").Should(Equal(supervisor.Stopped))
}

func TestPauseAndResume(t *testing.T) {
	f := setUp(t, time.Minute)
	f.Add(f.script("a", exitsOnSIGTERM))
	running := f.waitForPhase("a", supervisor.Running)
	f.Expect(f.Resume("a")).To(MatchError(ContainSubstring("a is running: only a paused")))
	f.Expect(f.Pause("a")).To(Succeed())
	f.Expect(f.status("a").Phase).To(Equal(supervisor.Paused))
	f.Expect(f.Pause("a")).To(MatchError(ContainSubstring("a is already paused")))
	f.Expect(f.Resume("a")).To(Succeed())
	f.Expect(f.status("a")).To(Equal(running), "a rejected resume changes nothing")
	f.Expect(f.Pause("a")).To(Succeed())
	f.Expect(f.Stop("a")).To(Succeed(), "a paused process can be stopped")
	f.waitForPhase("a", supervisor.Stopped)
}

func TestCrashIsReported(t *testing.T) {
	f := setUp(t, time.Minute)
	f.Add(f.script("a", `echo 'Error: out of luck' >&2; exit 2`, errors.New("no identity")))
	f.Eventually(f.reported).Should(ContainElements(
		"a crashed: cannot be started: no identity; restarts in 1s",
		"a ended: out of luck; restarts in 2s",
	))
}

func TestRemove(t *testing.T) {
	f := setUp(t, time.Minute)
	f.Add(f.script("a", exitsOnSIGTERM))
	f.Add(f.script("b", exitsOnSIGTERM))
	f.waitForPhase("a", supervisor.Running)
	f.waitForPhase("b", supervisor.Running)
	f.Expect(f.Remove("b")).To(Succeed())
	f.Eventually(f.Names).Should(Equal([]string{"a"}))
	f.Expect(f.Kill("b", 0)).To(MatchError(`process "b" not found (available: a)`))

	f.Expect(f.Stop("a")).To(Succeed())
	f.waitForPhase("a", supervisor.Stopped)
	f.Expect(f.Remove("a")).To(Succeed(), "a stopped process can be removed")
	f.Eventually(f.Names).Should(BeEmpty())
	f.Eventually(f.removed).Should(Equal([]string{"b", "a"}))
}

func TestAddDuringRemoval(t *testing.T) {
	f := setUp(t, 100*time.Millisecond)
	script := f.script("a", ignoresSIGTERM)
	f.Add(script)
	before := f.waitForPhase("a", supervisor.Running)
	f.Expect(f.Remove("a")).To(Succeed())
	f.Add(script)
	f.Eventually(func() int { return f.status("a").PID }).ShouldNot(Or(Equal(before.PID), BeZero()))
}

// TestCloseIsBounded closes a supervisor with a process that ignores SIGTERM, one that is paused,
// one in backoff and one whose preparation hangs, while another goroutine keeps sending commands.
func TestCloseIsBounded(t *testing.T) {
	f := setUp(t, time.Hour)
	f.Add(f.script("ignores-sigterm", ignoresSIGTERM))
	f.Add(f.script("paused", ignoresSIGTERM))
	f.Add(f.script("waiting", exitsOnSIGTERM))
	f.Add(supervisor.Program{Name: "starting", Prepare: func(ctx context.Context) (process.Spec, error) {
		<-ctx.Done()
		return process.Spec{}, ctx.Err()
	}})
	for _, name := range []string{"ignores-sigterm", "paused", "waiting"} {
		f.waitForPhase(name, supervisor.Running)
	}
	f.Expect(f.Pause("paused")).To(Succeed())
	f.Expect(f.Kill("waiting", time.Hour)).To(Succeed())
	f.waitForPhase("waiting", supervisor.Waiting)
	late := f.script("late", exitsOnSIGTERM)
	refused := make(chan error)
	go func() {
		for f.Supervisor.Add(late) == nil {
			_ = f.Resume("waiting") // fails while it runs
		}
		refused <- f.Resume("waiting")
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	f.Close(ctx)
	f.Expect(f.Processes()).To(BeEmpty())
	f.Expect(<-refused).To(MatchError(ContainSubstring("is stopping")))
}
