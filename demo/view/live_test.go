package view_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/view"
)

// fakeTerminal is a source, a screen and a commander.
type fakeTerminal struct {
	changed chan struct{}
	keys    chan byte
	resized chan os.Signal

	mu       sync.Mutex
	state    view.State
	shown    string
	drawn    int
	redraws  int
	requests []control.Request
	reply    string
	failed   error
}

func newFakeTerminal() *fakeTerminal {
	return &fakeTerminal{changed: make(chan struct{}, 1), keys: make(chan byte), resized: make(chan os.Signal), state: steadyState(), reply: "done"}
}

func (s *fakeTerminal) State() view.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *fakeTerminal) Changed() <-chan struct{}  { return s.changed }
func (s *fakeTerminal) Keys() <-chan byte         { return s.keys }
func (s *fakeTerminal) Resized() <-chan os.Signal { return s.resized }
func (s *fakeTerminal) Size() (width, height int) { return 100, 30 }

func (s *fakeTerminal) Draw(lines []string, redraws bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = strings.Join(lines, "\n")
	s.drawn++
	if redraws {
		s.redraws++
	}
	return nil
}

func (s *fakeTerminal) Do(_ context.Context, request control.Request, progress func(string)) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	progress("working")
	return s.reply, s.failed
}

func (s *fakeTerminal) shows(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.shown, text)
}

func (s *fakeTerminal) counts() (drawn, redraws int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drawn, s.redraws
}

// run runs the view, and returns a function that presses keys and lets time pass.
func (s *fakeTerminal) run(t *testing.T) (press func(keys string), ended <-chan struct{}) {
	t.Helper()
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		defer close(done)
		view.Live(ctx, s, s, s, false)
	}()
	synctest.Wait()
	return func(keys string) {
		for _, key := range []byte(keys) {
			s.keys <- key
			time.Sleep(time.Second)
			synctest.Wait()
		}
	}, done
}

func TestKeys(t *testing.T) {
	first, second := "webhosting-operator-0", "webhosting-operator-1"
	for name, test := range map[string]struct {
		keys string
		want []control.Request
	}{
		"kill the first":     {"k", []control.Request{{Command: control.Kill, Name: first, Away: view.Away}}},
		"kill the second":    {"2k", []control.Request{{Command: control.Kill, Name: second, Away: view.Away}}},
		"no fourth instance": {"24k", []control.Request{{Command: control.Kill, Name: second, Away: view.Away}}},
		"stop":               {"2s", []control.Request{{Command: control.Stop, Name: second, Away: view.Away}}},
		"pause and resume": {"pr", []control.Request{
			{Command: control.Pause, Name: first, Away: view.Away}, {Command: control.Resume, Name: first, Away: view.Away},
		}},
		"more":           {"+", []control.Request{{Command: control.Scale, Count: 4}}},
		"more, no shift": {"=", []control.Request{{Command: control.Scale, Count: 4}}},
		"fewer":          {"-", []control.Request{{Command: control.Scale, Count: 2}}},
		"websites":       {"w", []control.Request{{Command: control.Websites, Count: 130}}},
		"nothing":        {"x0\x1b?", nil},
		"after help":     {"?kk", []control.Request{{Command: control.Kill, Name: first, Away: view.Away}}},
		"zero and nine":  {"09", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeTerminal()
				press, _ := s.run(t)
				press(test.keys)
				if diff := cmp.Diff(test.want, s.requests); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestScaleIgnoresInstancesBeingRemoved scales up and down while an instance is being removed.
func TestScaleIgnoresInstancesBeingRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeTerminal()
		s.state.Instances[2].Removing = true
		press, _ := s.run(t)
		press("+-")
		want := []control.Request{{Command: control.Scale, Count: 3}, {Command: control.Scale, Count: 1}}
		if diff := cmp.Diff(want, s.requests); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMessagesAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeTerminal()
		press, _ := s.run(t)
		press("k")
		if !s.shows("done") {
			t.Errorf("shown:\n%s", s.shown)
		}
		s.mu.Lock()
		s.failed = errors.New("process is not running")
		s.mu.Unlock()
		press("k")
		if !s.shows("process is not running") {
			t.Errorf("shown:\n%s", s.shown)
		}
	})
}

// TestHelp shows the help screen until the next key.
func TestHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeTerminal()
		press, _ := s.run(t)
		for _, key := range []string{"?", "h"} {
			press(key)
			if !s.shows("press any key to return") || !s.shows("ringmaster demo scale 5") || s.shows("Moves") {
				t.Errorf("shown:\n%s", s.shown)
			}
			press(key)
			if s.shows("press any key to return") {
				t.Errorf("shown:\n%s", s.shown)
			}
		}
	})
}

// TestQuit ends the view in every possible way.
func TestQuit(t *testing.T) {
	for name, quit := range map[string]func(*fakeTerminal){
		"q":               func(s *fakeTerminal) { s.keys <- 'q' },
		"Ctrl-C":          func(s *fakeTerminal) { s.keys <- 3 },
		"Ctrl-D":          func(s *fakeTerminal) { s.keys <- 4 },
		"closed terminal": func(s *fakeTerminal) { close(s.keys) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeTerminal()
				_, ended := s.run(t)
				quit(s)
				<-ended
			})
		})
	}
}

// TestDrawIsRateLimited expects few draws for many changes, and a full redraw after a change of the
// size.
func TestDrawIsRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeTerminal()
		s.run(t)
		s.mu.Lock()
		s.state = failover()
		s.mu.Unlock()
		for range 1000 {
			select {
			case s.changed <- struct{}{}:
			default:
			}
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if !s.shows("killed by you") {
			t.Errorf("shown:\n%s", s.shown)
		}
		if drawn, redraws := s.counts(); drawn > 30 || redraws != 1 {
			t.Errorf("%d draws in a second, %d of them full", drawn, redraws)
		}
		s.resized <- os.Interrupt
		synctest.Wait()
		if _, redraws := s.counts(); redraws != 2 {
			t.Errorf("%d full draws", redraws)
		}
	})
}

// TestLog writes each event once, and the summary when it is stable or after a while.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeTerminal()
		ctx, cancel := context.WithCancel(t.Context())
		out := &strings.Builder{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			view.Log(ctx, s, out, steadyState())
		}()
		set := func(change func(*view.State)) {
			s.mu.Lock()
			defer s.mu.Unlock()
			change(&s.state)
		}
		time.Sleep(2500 * time.Millisecond)
		set(func(state *view.State) { *state = failover() })
		time.Sleep(3 * time.Second)
		for i := range 15 {
			set(func(state *view.State) { state.Objects.Total = 100 + i })
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Second)
		cancel()
		<-done
		got := out.String()
		for text, times := range map[string]int{
			"killed by you": 1, "30 websites, 28 ready": 1, "109 websites": 1, "114 websites": 1, " websites, ": 3, "\x1b": 0,
		} {
			if strings.Count(got, text) != times {
				t.Errorf("%q is not written %d times", text, times)
			}
		}
		if t.Failed() {
			t.Log(got)
		}
	})
}
