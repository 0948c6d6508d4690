package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// The smallest terminal in which there is something to see.
const leastWidth, leastHeight = 20, 5

// Frame draws the state for a terminal of a size. It has at most so many lines, of at most that width.
func Frame(state State, width, height int) []Line {
	if width < leastWidth || height < leastHeight {
		return clipAll([]Line{{{"make the terminal larger", Plain}}}, width, height)
	}
	if state.Help {
		return clipAll(help(state, width, height), width, height)
	}
	top := append(header(state, width), summary(state)...)
	bottom := footer(state, width)
	room := height - len(top) - len(bottom)
	shards := table(state, width)
	if len(shards) > room {
		hidden := len(shards) - room + 1
		shards = append(shards[:max(0, room-1)], Line{{fmt.Sprintf("  … and %d more: make the terminal higher", hidden), Dim}})
	}
	return clipAll(slices.Concat(top, shards, news(state, width, room-len(shards)), bottom), width, height)
}

func clipAll(lines []Line, width, height int) []Line {
	lines = lines[:min(len(lines), max(0, height))]
	for i := range lines {
		lines[i] = lines[i].clip(width)
	}
	return lines
}

// titles say what a mode means.
var titles = map[string]string{
	ModeLead:      "lead: one instance works, the others wait",
	ModeShard:     "shard: every instance has its share, a sharder gives them out",
	ModeInProcess: "in-process: every instance has its share, one gives them out",
	ModeGlobal:    "global: when all are ready, one operator acts for all regions",
	ModeLocal:     "local: each operator acts for its own region, one at a time",
}

func header(state State, width int) []Line {
	left := Line{{"Ringmaster", Bold}, {"  " + titles[state.Mode], Plain}}
	right := Line{{clean(state.Kubernetes) + "  up " + short(state.Now.Sub(state.Up)), Dim}}
	if gap := width - left.width() - right.width(); gap > 1 {
		left = append(append(left, Span{strings.Repeat(" ", gap), Plain}), right...)
	}
	return []Line{left, nil}
}

// summary is how all are doing together.
func summary(state State) []Line {
	objects := state.Objects
	line := Line{{clean(state.Ring.Name), Accent}, {"  ", Plain}}
	switch problem := clean(state.Ring.Problem); {
	case problem != "":
		line = append(line, Span{problem, Warn})
	case state.Mode == ModeLead:
		line = append(line, leader(state))
	default:
		members := 0
		for _, instance := range state.Instances {
			if instance.Lease == leaseReady {
				members++
			}
		}
		line = append(line, Span{fmt.Sprintf("%d of %d shards ready", members, len(state.Instances)), worth(members == len(state.Instances))})
	}
	line = append(line,
		Span{" · " + prose.Count(objects.Total, objects.Name) + ", ", Plain},
		Span{fmt.Sprintf("%d ready", objects.Ready), worth(objects.Ready == objects.Total)})
	if state.Mode == ModeInProcess {
		line = append(line, Span{" · sharder: ", Plain}, leader(state))
	}
	if objects.Unassigned > 0 {
		line = append(line, Span{fmt.Sprintf(" · %d without a shard", objects.Unassigned), Bad})
	}
	if objects.Draining > 0 {
		line = append(line, Span{fmt.Sprintf(" · %d on the move", objects.Draining), Warn})
	}
	return []Line{line, nil}
}

func worth(good bool) Style {
	if good {
		return Good
	}
	return Warn
}

// leader is who has won the election.
func leader(state State) Span {
	suffix := " leads"
	if state.Mode == ModeInProcess {
		suffix = ""
	}
	for _, instance := range state.Instances {
		if instance.Leads && instance.PID != 0 {
			return Span{clean(instance.Name) + suffix, Good}
		}
	}
	return Span{"nobody" + suffix, Bad}
}

// news are moves, events and what to type in another terminal, in exactly as many lines as there is room for,
// so that nothing jumps when there is more of one. How to reach the cluster comes first: without it there is
// nothing to do but to look.
func news(state State, width, room int) []Line {
	const (
		least       = 3 // a gap, a title and a line
		comfortable = 4
	)
	hints := reach(state.Hints, width)
	if room < len(hints) {
		hints = hints[min(1, len(hints)):] // the gap
	}
	if room < len(hints) {
		hints = nil
	}
	wanted := comfortable
	if state.Mode != ModeLead {
		wanted = 2 * comfortable
	}
	if commands := tries(state.Hints, width); len(hints)+len(commands)+wanted <= room {
		hints = append(hints, commands...)
	}
	var lines []Line
	left := room - len(hints)
	if state.Mode != ModeLead && left >= least {
		share := left
		if left >= 2*least {
			share = left / 2
		}
		lines = append(lines, section(share, func(room int) []Line { return moves(state, width, room) })...)
		left -= share
	}
	if left >= least {
		lines = append(lines, section(left, func(room int) []Line { return events(state.Events, room) })...)
	}
	return append(fill(lines, room-len(hints)), hints...)
}

// section is a gap and what is below it, in so many lines.
func section(lines int, below func(room int) []Line) []Line {
	return fill(append([]Line{nil}, below(lines-1)...), lines)
}

func fill(lines []Line, wanted int) []Line {
	for len(lines) < wanted {
		lines = append(lines, nil)
	}
	return lines
}

const window = 10 * time.Second

func moves(state State, width, room int) []Line {
	recent := 0
	for _, move := range state.Moves {
		if state.Now.Sub(move.At) < window {
			recent++
		}
	}
	title := Line{{"Moves", Bold}, {fmt.Sprintf("  %d in all", state.Moved), Dim}}
	if recent > 0 {
		title = append(title, Span{fmt.Sprintf(", %d in the last %s", recent, short(window)), Warn})
	}
	lines := []Line{title}
	names := nameWidth
	if width < wide {
		names = nameWidth / 2
	}
	for _, move := range last(state.Moves, room-1) {
		lines = append(lines, Line{
			{"  " + move.At.Format(time.TimeOnly) + "  ", Dim},
			{pad(clean(move.Object), nameWidth) + " ", Plain},
			{tail(clean(move.From), names) + " → " + tail(clean(move.To), names), Accent},
		})
	}
	return lines
}

const (
	// nameWidth is what names of objects and instances have.
	nameWidth = 26
	// wide is a terminal in which two full names have room.
	wide = 100
)

func events(all []Event, room int) []Line {
	lines := []Line{{{"Events", Bold}}}
	for _, event := range last(all, room-1) {
		style := Plain
		if event.Warning {
			style = Warn
		}
		lines = append(lines, Line{
			{"  " + event.At.Format(time.TimeOnly) + "  ", Dim},
			{pad(clean(event.About), nameWidth) + " ", Plain},
			{clean(event.What), style},
		})
	}
	return lines
}

func last[T any](all []T, n int) []T { return all[max(0, len(all)-max(0, n)):] }
