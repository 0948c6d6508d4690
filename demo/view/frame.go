package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// The minimum size of a terminal.
const minWidth, minHeight = 20, 5

// Frame returns the lines for a terminal of the given size. They always fit.
func Frame(state State, width, height int) []Line {
	if width < minWidth || height < minHeight {
		return clipAll([]Line{{{"enlarge the terminal", Plain}}}, width, height)
	}
	if state.Help {
		return clipAll(help(state, width, height), width, height)
	}
	top := append(header(state, width), summary(state)...)
	bottom := footer(state, width)
	room := height - len(top) - len(bottom)
	shards := table(state, width)
	if len(shards) > room {
		omitted := len(shards) - room + 1
		shards = append(shards[:max(0, room-1)], Line{{fmt.Sprintf("  … and %d more: enlarge the terminal", omitted), Dim}})
	}
	return clipAll(slices.Concat(top, shards, details(state, width, room-len(shards)), bottom), width, height)
}

func clipAll(lines []Line, width, height int) []Line {
	lines = lines[:min(len(lines), max(0, height))]
	for i := range lines {
		lines[i] = lines[i].clip(width)
	}
	return lines
}

// titles describe the modes.
var titles = map[string]string{
	ModeLead:      "lead: one instance reconciles, the others are on standby",
	ModeShard:     "shard: every instance owns a share, the external sharder assigns it",
	ModeInProcess: "in-process: every instance owns a share, one of them assigns it",
	ModeGlobal:    "global: the operators coordinate, one acts for all regions",
	ModeLocal:     "local: each operator acts for its own region, one at a time",
}

func header(state State, width int) []Line {
	left := Line{{"Ringmaster", Bold}, {"  " + titles[state.Mode], Plain}}
	right := Line{{sanitize(state.Kubernetes) + "  up " + age(state.Now.Sub(state.StartedAt)), Dim}}
	if gap := width - left.width() - right.width(); gap > 1 {
		left = append(append(left, Span{strings.Repeat(" ", gap), Plain}), right...)
	}
	return []Line{left, nil}
}

// summary returns the line about the ring and its objects.
func summary(state State) []Line {
	objects := state.Objects
	line := Line{{sanitize(state.Ring.Name), Accent}, {"  ", Plain}}
	switch problem := sanitize(state.Ring.Problem); {
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
		line = append(line, Span{fmt.Sprintf("%d of %d shards ready", members, len(state.Instances)), goodOrWarn(members == len(state.Instances))})
	}
	line = append(line,
		Span{" · " + prose.Count(objects.Total, objects.Name) + ", ", Plain},
		Span{fmt.Sprintf("%d ready", objects.Ready), goodOrWarn(objects.Ready == objects.Total)})
	if state.Mode == ModeInProcess {
		line = append(line, Span{" · sharder: ", Plain}, leader(state))
	}
	for _, count := range []struct {
		n     int
		state string
		style Style
	}{{objects.Unassigned, "unassigned", Bad}, {objects.Orphaned, "orphaned", Bad}, {objects.Draining, "draining", Warn}} {
		if count.n > 0 {
			line = append(line, Span{fmt.Sprintf(" · %d %s", count.n, count.state), count.style})
		}
	}
	return []Line{line, nil}
}

func goodOrWarn(good bool) Style {
	if good {
		return Good
	}
	return Warn
}

// leader returns the instance that leads, or that is the in-process sharder.
func leader(state State) Span {
	suffix, none := " leads", "no leader"
	if state.Mode == ModeInProcess {
		suffix, none = "", "none"
	}
	for _, instance := range state.Instances {
		if instance.Leads && instance.PID != 0 {
			return Span{sanitize(instance.Name) + suffix, Good}
		}
	}
	return Span{none, Bad}
}

// details returns moves, events and hints. They fill the room exactly, so that nothing else moves
// when one of them grows. The hints how to reach the cluster come first, because without them a
// user can do nothing but watch.
func details(state State, width, room int) []Line {
	const (
		minimum     = 3 // an empty line, a title and a line
		comfortable = 4
	)
	hints := connectionLines(state.Hints, width)
	if room < len(hints) {
		hints = hints[min(1, len(hints)):] // without the empty line
	}
	if room < len(hints) {
		hints = nil
	}
	preferred := comfortable
	if state.Mode != ModeLead {
		preferred = 2 * comfortable
	}
	if commands := suggestionLines(state.Hints, width); len(hints)+len(commands)+preferred <= room {
		hints = append(hints, commands...)
	}
	var lines []Line
	left := room - len(hints)
	if state.Mode != ModeLead && left >= minimum {
		share := left
		if left >= 2*minimum {
			share = left / 2
		}
		lines = append(lines, section(share, func(room int) []Line { return moves(state, width, room) })...)
		left -= share
	}
	if left >= minimum {
		lines = append(lines, section(left, func(room int) []Line { return events(state.Events, room) })...)
	}
	return append(fill(lines, room-len(hints)), hints...)
}

// section returns an empty line and a block of lines, padded to the given height.
func section(height int, block func(room int) []Line) []Line {
	return fill(append([]Line{nil}, block(height-1)...), height)
}

func fill(lines []Line, height int) []Line {
	for len(lines) < height {
		lines = append(lines, nil)
	}
	return lines
}

const recentWindow = 10 * time.Second

func moves(state State, width, room int) []Line {
	recent := 0
	for _, move := range state.Moves {
		if state.Now.Sub(move.At) < recentWindow {
			recent++
		}
	}
	title := Line{{"Moves", Bold}, {fmt.Sprintf("  %d in total", state.Moved), Dim}}
	if recent > 0 {
		title = append(title, Span{fmt.Sprintf(", %d in the last %s", recent, age(recentWindow)), Warn})
	}
	lines := []Line{title}
	names := nameWidth
	if width < wideTerminal {
		names = nameWidth / 2
	}
	for _, move := range last(state.Moves, room-1) {
		lines = append(lines, Line{
			{"  " + move.At.Format(time.TimeOnly) + "  ", Dim},
			{pad(sanitize(move.Object), nameWidth) + " ", Plain},
			{truncateLeft(sanitize(move.From), names) + " → " + truncateLeft(sanitize(move.To), names), Accent},
		})
	}
	return lines
}

const (
	// nameWidth is the width of names of objects and instances.
	nameWidth = 26
	// wideTerminal is the width from which two full names fit.
	wideTerminal = 100
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
			{pad(sanitize(event.About), nameWidth) + " ", Plain},
			{sanitize(event.Message), style},
		})
	}
	return lines
}

func last[T any](all []T, n int) []T { return all[max(0, len(all)-max(0, n)):] }
