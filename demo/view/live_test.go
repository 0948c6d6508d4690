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

// stage is a source, a screen and somebody who does what is asked for.
type stage struct {
	changed chan struct{}
	keys    chan byte
	resized chan os.Signal

	mu     sync.Mutex
	state  view.State
	shown  string
	drawn  int
	anew   int
	asked  []control.Request
	reply  string
	failed error
}

func newStage() *stage {
	return &stage{changed: make(chan struct{}, 1), keys: make(chan byte), resized: make(chan os.Signal), state: calm(), reply: "done"}
}

func (s *stage) State() view.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *stage) Changed() <-chan struct{}  { return s.changed }
func (s *stage) Keys() <-chan byte         { return s.keys }
func (s *stage) Resized() <-chan os.Signal { return s.resized }
func (s *stage) Size() (width, height int) { return 100, 30 }

func (s *stage) Draw(lines []string, anew bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = strings.Join(lines, "\n")
	s.drawn++
	if anew {
		s.anew++
	}
	return nil
}

func (s *stage) do(_ context.Context, request control.Request, say func(string)) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, request)
	say("working")
	return s.reply, s.failed
}

func (s *stage) sees(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.shown, text)
}

func (s *stage) counts() (drawn, anew int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drawn, s.anew
}

// play runs the view, and returns a function that presses keys and lets time pass.
func (s *stage) play(t *testing.T) (press func(keys string), ended <-chan struct{}) {
	t.Helper()
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		defer close(done)
		view.Live(ctx, s, s, s.do, false)
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
		"there is no fourth": {"24k", []control.Request{{Command: control.Kill, Name: second, Away: view.Away}}},
		"stop":               {"2s", []control.Request{{Command: control.Stop, Name: second, Away: view.Away}}},
		"pause and resume": {"pr", []control.Request{
			{Command: control.Pause, Name: first, Away: view.Away}, {Command: control.Resume, Name: first, Away: view.Away},
		}},
		"more":          {"+", []control.Request{{Command: control.Scale, Count: 4}}},
		"also without":  {"=", []control.Request{{Command: control.Scale, Count: 4}}},
		"fewer":         {"-", []control.Request{{Command: control.Scale, Count: 2}}},
		"websites":      {"w", []control.Request{{Command: control.Websites, Count: 130}}},
		"nothing":       {"x0\x1b?", nil},
		"after help":    {"?kk", []control.Request{{Command: control.Kill, Name: first, Away: view.Away}}},
		"zero and nine": {"09", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				press, _ := s.play(t)
				press(test.keys)
				if diff := cmp.Diff(test.want, s.asked); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestThoseThatLeaveDoNotCount asks for more and for fewer while one is on its way out.
func TestThoseThatLeaveDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.state.Instances[2].Dismissed = true
		press, _ := s.play(t)
		press("+-")
		want := []control.Request{{Command: control.Scale, Count: 3}, {Command: control.Scale, Count: 1}}
		if diff := cmp.Diff(want, s.asked); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnswersAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		press, _ := s.play(t)
		press("k")
		if !s.sees("done") {
			t.Errorf("shown:\n%s", s.shown)
		}
		s.mu.Lock()
		s.failed = errors.New("it is not running")
		s.mu.Unlock()
		press("k")
		if !s.sees("it is not running") {
			t.Errorf("shown:\n%s", s.shown)
		}
	})
}

// TestHelp shows what can be typed until the next key.
func TestHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		press, _ := s.play(t)
		for _, key := range []string{"?", "h"} {
			press(key)
			if !s.sees("any key goes back") || !s.sees("ringmaster demo scale 5") || s.sees("Moves") {
				t.Errorf("shown:\n%s", s.shown)
			}
			press(key)
			if s.sees("any key goes back") {
				t.Errorf("shown:\n%s", s.shown)
			}
		}
	})
}

// TestQuit ends in every way that there is.
func TestQuit(t *testing.T) {
	for name, quit := range map[string]func(*stage){
		"q":                    func(s *stage) { s.keys <- 'q' },
		"Ctrl-C":               func(s *stage) { s.keys <- 3 },
		"Ctrl-D":               func(s *stage) { s.keys <- 4 },
		"the terminal is gone": func(s *stage) { close(s.keys) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				_, ended := s.play(t)
				quit(s)
				<-ended
			})
		})
	}
}

// TestDrawsWhatChanges draws when something changed, but not a hundred times a second, and all of it when
// the terminal has another size.
func TestDrawsWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.play(t)
		s.mu.Lock()
		s.state = stormy()
		s.mu.Unlock()
		for range 1000 {
			select {
			case s.changed <- struct{}{}:
			default:
			}
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if !s.sees("killed by you") {
			t.Errorf("shown:\n%s", s.shown)
		}
		if drawn, anew := s.counts(); drawn > 30 || anew != 1 {
			t.Errorf("drawn %d times in a second, anew %d times", drawn, anew)
		}
		s.resized <- os.Interrupt
		synctest.Wait()
		if _, anew := s.counts(); anew != 2 {
			t.Errorf("drawn anew %d times", anew)
		}
	})
}

// TestLog tells events once, and counts when they have settled or it takes too long.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		ctx, cancel := context.WithCancel(t.Context())
		out := &strings.Builder{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			view.Log(ctx, s, out, calm())
		}()
		set := func(change func(*view.State)) {
			s.mu.Lock()
			defer s.mu.Unlock()
			change(&s.state)
		}
		time.Sleep(2500 * time.Millisecond)
		set(func(state *view.State) { *state = stormy() })
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
				t.Errorf("%q is not there %d times", text, times)
			}
		}
		if t.Failed() {
			t.Log(got)
		}
	})
}
