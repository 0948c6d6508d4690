package view

import (
	"context"
	"os"
	"time"

	"github.com/ringmaster-project/ringmaster/demo/control"
)

// Source provides the states of a demo with one ring.
type Source interface {
	// State returns the current state.
	State() State
	// Changed receives a value after the state has changed. Several changes may be one
	// notification.
	Changed() <-chan struct{}
}

// Screen is a terminal to draw on.
type Screen interface {
	Size() (width, height int)
	Draw(lines []string, redraw bool) error
	Keys() <-chan byte
	Resized() <-chan os.Signal
}

// Commander carries out commands.
type Commander interface {
	Do(ctx context.Context, request control.Request, progress func(string)) (string, error)
}

// Away is the default restart delay of a killed process: long enough for its Lease to expire and
// its objects to move.
const Away = 20 * time.Second

// The keys that end the view.
const (
	ctrlC = 3
	ctrlD = 4
)

// keyAction is the meaning of a key.
type keyAction struct {
	request  *control.Request
	selected string
	help     bool
	quit     bool
}

// userState is the part of the view that keys change.
type userState struct {
	selected string // name of the process that keys are about
	message  string // result of the last command
	help     bool   // the help screen is shown
}

// content is the content of a live view.
type content interface {
	Changed() <-chan struct{}
	frame(user userState, width, height int) []Line
	keyAction(user userState, key byte) keyAction
}

// liveView draws content on a screen.
type liveView struct {
	content   content
	screen    Screen
	commander Commander
	colours   bool
	user      userState
	messages  chan string
}

// Live shows a ring and carries out keys until ctx ends, the user quits or the terminal is closed.
func Live(ctx context.Context, source Source, screen Screen, commander Commander, colours bool) {
	run(ctx, ringContent{source}, screen, commander, colours)
}

// LiveRegions does the same for an etcd cluster in several regions.
func LiveRegions(ctx context.Context, source RegionsSource, screen Screen, commander Commander, colours bool) {
	run(ctx, regionsContent{source}, screen, commander, colours)
}

func run(ctx context.Context, content content, screen Screen, commander Commander, colours bool) {
	// A frame is drawn after a change, but at most once in minInterval, and each second because of
	// the ages.
	const minInterval, maxInterval = 50 * time.Millisecond, time.Second
	l := &liveView{content: content, screen: screen, commander: commander, colours: colours, messages: make(chan string, 16)}
	ticker := time.NewTicker(maxInterval)
	defer ticker.Stop()
	for redraw := true; ctx.Err() == nil; {
		if l.draw(redraw) != nil {
			return
		}
		redraw = false
		select {
		case <-time.After(minInterval):
		case <-ctx.Done():
		}
		select {
		case <-content.Changed():
		case <-ticker.C:
		case l.user.message = <-l.messages:
		case <-screen.Resized():
			redraw = true
		case key, open := <-screen.Keys():
			if !open || l.handleKey(ctx, key) {
				return
			}
		case <-ctx.Done():
		}
	}
}

func (l *liveView) draw(redraw bool) error {
	width, height := l.screen.Size()
	var lines []string
	for _, line := range l.content.frame(l.user, width, height) {
		if l.colours {
			lines = append(lines, line.ANSI())
		} else {
			lines = append(lines, line.Text())
		}
	}
	return l.screen.Draw(lines, redraw)
}

// handleKey carries out a key, and returns true if it quits the view.
func (l *liveView) handleKey(ctx context.Context, key byte) (quit bool) {
	action := l.content.keyAction(l.user, key)
	if l.user.help && !action.quit {
		l.user.help = false // the help screen hides what the key would change
		return false
	}
	l.user.help = action.help
	if action.selected != "" {
		l.user.selected, l.user.message = action.selected, ""
	}
	if action.request == nil {
		return action.quit
	}
	show := func(message string) {
		select {
		case l.messages <- message:
		case <-ctx.Done():
		}
	}
	go func() { // creating websites takes a while
		message, err := l.commander.Do(ctx, *action.request, show)
		if err != nil {
			message = err.Error()
		}
		show(message)
	}()
	return false
}
