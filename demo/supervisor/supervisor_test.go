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

// polite ends when asked, stubborn does not.
const (
	polite   = `trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done`
	stubborn = `trap '' TERM; echo up; while :; do sleep 0.01; done`
)

// fixture is a crew of shell scripts, and what was told of it.
type fixture struct {
	*WithT
	*supervisor.Crew
	t *testing.T

	mu         sync.Mutex
	told, gone []string
}

func setUp(t *testing.T, grace time.Duration) *fixture {
	t.Helper()
	f := &fixture{WithT: NewWithT(t), t: t}
	f.SetDefaultEventuallyTimeout(2 * time.Minute)
	f.Crew = supervisor.New(supervisor.Options{Report: f.report, Changed: func() {}, Gone: f.forget, Grace: grace})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		f.Close(ctx)
		f.Expect(f.Members()).To(BeEmpty())
	})
	return f
}

func (f *fixture) report(name, what string, wrong bool) {
	if wrong != (strings.HasPrefix(what, "crashed") || strings.HasPrefix(what, "ended")) {
		f.t.Errorf("is it wrong that %s %s?", name, what)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, name+" "+what)
}

func (f *fixture) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = append(f.gone, name)
}

func (f *fixture) forgotten() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.gone)
}

func (f *fixture) heard() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told)
}

// Add has to work: the crew is not closed yet.
func (f *fixture) Add(program supervisor.Program) {
	f.t.Helper()
	f.Expect(f.Crew.Add(program)).To(Succeed())
}

// script is a program, whose first preparations fail if failures are given.
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

func (f *fixture) member(name string) supervisor.Member {
	for _, m := range f.Members() {
		if m.Name == name {
			return m
		}
	}
	return supervisor.Member{}
}

// becomes waits until a process is in the phase, and returns it.
func (f *fixture) becomes(name string, phase supervisor.Phase) supervisor.Member {
	f.t.Helper()
	f.Eventually(func() supervisor.Phase { return f.member(name).Phase }).Should(Equal(phase))
	return f.member(name)
}

func TestKilledIsStartedAgain(t *testing.T) {
	f := setUp(t, time.Minute)
	f.Add(f.script("a", polite))
	before := f.becomes("a", supervisor.Running)
	f.Expect(f.Kill("a", time.Hour)).To(Succeed())
	waiting := f.becomes("a", supervisor.Waiting)
	f.Expect(waiting).To(And(HaveField("Note", "killed by you"), HaveField("PID", 0), HaveField("Restarts", 1)))
	f.Expect(waiting.Again).To(BeTemporally(">", time.Now().Add(50*time.Minute)))
	f.Expect(f.Kill("a", 0)).To(MatchError(ContainSubstring("not running (killed by you)")))

	f.Expect(f.Resume("a")).To(Succeed(), "it need not wait")
	after := f.becomes("a", supervisor.Running)
	f.Expect(after.PID).NotTo(Equal(before.PID))
	f.Expect(f.heard()).To(ContainElement("a killed by you; starts again in 1h0m0s"))
}

func TestStoppedStaysAway(t *testing.T) {
	f := setUp(t, time.Minute)
	f.Add(f.script("a", polite))
	f.becomes("a", supervisor.Running)
	f.Expect(f.Stop("a")).To(Succeed())
	f.Expect(f.becomes("a", supervisor.Stopped)).To(And(HaveField("Note", "stopped by you"), HaveField("Restarts", 0)))
	f.Expect(f.Stop("a")).To(MatchError("a is stopped already"))
	f.Expect(f.Pause("a")).To(MatchError(ContainSubstring("start it with 'resume'")))
	f.Expect(f.Resume("a")).To(Succeed())
	f.becomes("a", supervisor.Running)
}

func TestStoppedWhileItWaits(t *testing.T) {
	f := setUp(t, time.Minute)
	f.Add(f.script("a", polite))
	f.becomes("a", supervisor.Running)
	f.Expect(f.Kill("a", time.Hour)).To(Succeed())
	f.becomes("a", supervisor.Waiting)
	f.Expect(f.Stop("a")).To(Succeed())
	f.becomes("a", supervisor.Stopped)
	f.Consistently(func() supervisor.Phase { return f.member("a").Phase }, "100ms").Should(Equal(supervisor.Stopped))
}

func TestPauseAndResume(t *testing.T) {
	f := setUp(t, time.Minute)
	f.Add(f.script("a", polite))
	running := f.becomes("a", supervisor.Running)
	f.Expect(f.Resume("a")).To(MatchError("a is running, and not paused"))
	f.Expect(f.Pause("a")).To(Succeed())
	f.Expect(f.member("a").Phase).To(Equal(supervisor.Paused))
	f.Expect(f.Pause("a")).To(MatchError("a is paused already"))
	f.Expect(f.Resume("a")).To(Succeed())
	f.Expect(f.member("a")).To(Equal(running), "it is the same as before")
	f.Expect(f.Pause("a")).To(Succeed())
	f.Expect(f.Stop("a")).To(Succeed(), "also when it is paused")
	f.becomes("a", supervisor.Stopped)
}

func TestCrashIsTold(t *testing.T) {
	f := setUp(t, time.Minute)
	f.Add(f.script("a", `echo 'Error: out of luck' >&2; exit 2`, errors.New("no identity")))
	f.Eventually(f.heard).Should(ContainElements(
		"a crashed: cannot be started: no identity; starts again in 1s",
		"a ended: out of luck; starts again in 2s",
	))
}

func TestRemovedIsGone(t *testing.T) {
	f := setUp(t, time.Minute)
	f.Add(f.script("a", polite))
	f.Add(f.script("b", polite))
	f.becomes("a", supervisor.Running)
	f.becomes("b", supervisor.Running)
	f.Expect(f.Remove("b")).To(Succeed())
	f.Eventually(f.Names).Should(Equal([]string{"a"}))
	f.Expect(f.Kill("b", 0)).To(MatchError(`there is no "b"; there are: a`))

	f.Expect(f.Stop("a")).To(Succeed())
	f.becomes("a", supervisor.Stopped)
	f.Expect(f.Remove("a")).To(Succeed(), "also when it rests")
	f.Eventually(f.Names).Should(BeEmpty())
	f.Eventually(f.forgotten).Should(Equal([]string{"b", "a"}))
}

func TestWantedAgainWhileItStops(t *testing.T) {
	f := setUp(t, 100*time.Millisecond)
	script := f.script("a", stubborn)
	f.Add(script)
	before := f.becomes("a", supervisor.Running)
	f.Expect(f.Remove("a")).To(Succeed())
	f.Add(script)
	f.Eventually(func() int { return f.member("a").PID }).ShouldNot(Or(Equal(before.PID), BeZero()))
}

// TestCloseIsBounded ends a process that does not want to, one that is paused, one that waits and one
// that is being prepared for ever, while somebody goes on to ask for more.
func TestCloseIsBounded(t *testing.T) {
	f := setUp(t, time.Hour)
	f.Add(f.script("stubborn", stubborn))
	f.Add(f.script("paused", stubborn))
	f.Add(f.script("waiting", polite))
	f.Add(supervisor.Program{Name: "starting", Prepare: func(ctx context.Context) (process.Spec, error) {
		<-ctx.Done()
		return process.Spec{}, ctx.Err()
	}})
	for _, name := range []string{"stubborn", "paused", "waiting"} {
		f.becomes(name, supervisor.Running)
	}
	f.Expect(f.Pause("paused")).To(Succeed())
	f.Expect(f.Kill("waiting", time.Hour)).To(Succeed())
	f.becomes("waiting", supervisor.Waiting)
	late := f.script("late", polite)
	refused := make(chan error)
	go func() {
		for f.Crew.Add(late) == nil {
			_ = f.Resume("waiting") // which it cannot while it runs
		}
		refused <- f.Resume("waiting")
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	f.Close(ctx)
	f.Expect(f.Members()).To(BeEmpty())
	f.Expect(<-refused).To(MatchError(ContainSubstring("it is ending")))
}
