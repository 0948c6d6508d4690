package view

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ringmaster-project/ringmaster/demo/control"
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
	help     bool
	quit     bool
}

// chosen is what a person has chosen: what keys are about, what came of the last one, and whether to see what can be
// typed.
type chosen struct {
	selected, answer string
	help             bool
}

// show is something to be looked at.
type show interface {
	Changed() <-chan struct{}
	// frame draws it as it is now, press says what a key means.
	frame(chosen chosen, width, height int) []Line
	press(chosen chosen, key byte) pressed
}

// live is a show that is being looked at.
type live struct {
	show    show
	screen  Screen
	do      control.Handler
	colours bool
	chosen  chosen
	answers chan string
}

// Live draws what the source tells, and does what keys ask for, until ctx ends, the person quits or the
// terminal is gone.
func Live(ctx context.Context, source Source, screen Screen, do control.Handler, colours bool) {
	run(ctx, ring{source}, screen, do, colours)
}

// LiveRegions does the same for regions.
func LiveRegions(ctx context.Context, source RegionsSource, screen Screen, do control.Handler, colours bool) {
	run(ctx, regions{source}, screen, do, colours)
}

func run(ctx context.Context, show show, screen Screen, do control.Handler, colours bool) {
	// A frame is drawn when something has changed, but not more often than anybody can see, and each
	// second for the ages.
	const shortest, longest = 50 * time.Millisecond, time.Second
	l := &live{show: show, screen: screen, do: do, colours: colours, answers: make(chan string, 16)}
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
		case <-show.Changed():
		case <-ticker.C:
		case l.chosen.answer = <-l.answers:
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

func (l *live) draw(anew bool) error {
	width, height := l.screen.Size()
	var lines []string
	for _, line := range l.show.frame(l.chosen, width, height) {
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
	meant := l.show.press(l.chosen, key)
	if l.chosen.help && !meant.quit {
		l.chosen.help = false // nobody sees what else the key would do
		return false
	}
	l.chosen.help = meant.help
	if meant.selected != "" {
		l.chosen.selected, l.chosen.answer = meant.selected, ""
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

// Log writes what the source tells as lines until ctx ends, from a state on.
func Log(ctx context.Context, source Source, out io.Writer, before State) {
	lines(ctx, out, before, source.State, Tell, Count)
}

// LogRegions does the same for regions.
func LogRegions(ctx context.Context, source RegionsSource, out io.Writer, before Regions) {
	lines(ctx, out, before, source.State, TellRegions, CountRegions)
}

// lines writes what happens as lines. Counts are told when they have settled, or else now and then.
func lines[S any](ctx context.Context, out io.Writer, before S, state func() S, tell func(before, after S) []string, count func(S) string) {
	const interval, patience = time.Second, 10
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	told, unsettled := count(before), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		after := state()
		for _, line := range tell(before, after) {
			fmt.Fprintln(out, line)
		}
		now := count(after)
		if unsettled++; now == told {
			unsettled = 0
		} else if now == count(before) || unsettled >= patience {
			fmt.Fprintln(out, time.Now().Format(time.TimeOnly)+"  "+now)
			told, unsettled = now, 0
		}
		before = after
	}
}
