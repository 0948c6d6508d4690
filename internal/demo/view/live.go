package view

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/demo/control"
)

// Source is where states come from.
type Source interface {
	// State is how everything is now.
	State() State
	// Changed is told when there is something new. It is told again, and need not be heard each time.
	Changed() <-chan struct{}
}

// Screen is what is drawn on.
type Screen interface {
	Size() (width, height int)
	Draw(lines []string, anew bool) error
	Keys() <-chan byte
	Resized() <-chan os.Signal
}

// Away is how long an instance stays away that was killed with a key: long enough for its Lease to run out
// and its objects to go to the others.
const Away = 20 * time.Second

// The keys that end the view.
const (
	ctrlC = 3
	ctrlD = 4
)

// pressed is what a key means.
type pressed struct {
	request  *control.Request
	selected string
	quit     bool
}

// press says what a key means at the moment.
func press(state State, key byte) pressed {
	wanted := 0
	for _, instance := range state.Instances {
		if !instance.Dismissed {
			wanted++
		}
	}
	about := func(command string) pressed {
		if state.Selected == "" {
			return pressed{}
		}
		return pressed{request: &control.Request{Command: command, Name: state.Selected, Away: Away}}
	}
	switch key {
	case 'q', ctrlC, ctrlD:
		return pressed{quit: true}
	case '+', '=': // which is + without shift
		return pressed{request: &control.Request{Command: control.Scale, Count: wanted + 1}}
	case '-':
		return pressed{request: &control.Request{Command: control.Scale, Count: max(0, wanted-1)}}
	case 'w':
		return pressed{request: &control.Request{Command: control.Websites, Count: state.Objects.Total + 100}}
	case 'k':
		return about(control.Kill)
	case 's':
		return about(control.Stop)
	case 'p':
		return about(control.Pause)
	case 'r':
		return about(control.Resume)
	}
	if n := int(key) - '1'; n >= 0 && n < len(state.Instances) && key <= '9' {
		return pressed{selected: state.Instances[n].Name}
	}
	return pressed{}
}

// live is a view that is being looked at.
type live struct {
	source   Source
	screen   Screen
	do       control.Handler
	colours  bool
	selected string
	answer   string
	answers  chan string
}

// Live draws what the source tells, and does what keys ask for, until ctx ends, the person quits or the
// terminal is gone.
func Live(ctx context.Context, source Source, screen Screen, do control.Handler, colours bool) {
	// A frame is drawn when something has changed, but not more often than anybody can see, and each
	// second for the ages.
	const shortest, longest = 50 * time.Millisecond, time.Second
	l := &live{source: source, screen: screen, do: do, colours: colours, answers: make(chan string, 16)}
	ticker := time.NewTicker(longest)
	defer ticker.Stop()
	for anew := true; ctx.Err() == nil; {
		if l.draw(anew) != nil {
			return
		}
		anew = false
		select {
		case <-time.After(shortest):
		case <-ctx.Done():
		}
		select {
		case <-source.Changed():
		case <-ticker.C:
		case l.answer = <-l.answers:
		case <-screen.Resized():
			anew = true
		case key, open := <-screen.Keys():
			if !open || l.press(ctx, key) {
				return
			}
		case <-ctx.Done():
		}
	}
}

// state is the source's, with what the person has chosen.
func (l *live) state() State {
	state := l.source.State()
	for _, instance := range state.Instances {
		if instance.Name == l.selected {
			state.Selected = l.selected
		}
	}
	if state.Selected == "" && len(state.Instances) > 0 {
		state.Selected = state.Instances[0].Name
	}
	state.Answer = l.answer
	return state
}

func (l *live) draw(anew bool) error {
	width, height := l.screen.Size()
	var lines []string
	for _, line := range Frame(l.state(), width, height) {
		if l.colours {
			lines = append(lines, line.ANSI())
		} else {
			lines = append(lines, line.Text())
		}
	}
	return l.screen.Draw(lines, anew)
}

// press does what a key asks for, and tells whether that is to end.
func (l *live) press(ctx context.Context, key byte) (quit bool) {
	meant := press(l.state(), key)
	if meant.selected != "" {
		l.selected, l.answer = meant.selected, ""
	}
	if meant.request == nil {
		return meant.quit
	}
	say := func(what string) {
		select {
		case l.answers <- what:
		case <-ctx.Done():
		}
	}
	go func() { // websites take their time
		message, err := l.do(ctx, *meant.request, say)
		if err != nil {
			message = err.Error()
		}
		say(message)
	}()
	return false
}

// Log writes what the source tells as lines until ctx ends, from a state on. Counts are told when they have
// settled, or else now and then.
func Log(ctx context.Context, source Source, out io.Writer, before State) {
	const interval, patience = time.Second, 10
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	told, unsettled := Count(before), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		after := source.State()
		for _, line := range Tell(before, after) {
			fmt.Fprintln(out, line)
		}
		now := Count(after)
		if unsettled++; now == told {
			unsettled = 0
		} else if now == Count(before) || unsettled >= patience {
			fmt.Fprintln(out, after.Now.Format(time.TimeOnly)+"  "+now)
			told, unsettled = now, 0
		}
		before = after
	}
}
