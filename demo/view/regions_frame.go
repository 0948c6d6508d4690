package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// FrameRegions returns the lines for a terminal of the given size. They always fit.
func FrameRegions(state Regions, width, height int) []Line {
	if width < minWidth || height < minHeight {
		return clipAll([]Line{{{"enlarge the terminal", Plain}}}, width, height)
	}
	head := header(State{Now: state.Now, StartedAt: state.StartedAt, Kubernetes: state.Kubernetes, Mode: state.Mode}, width)
	if state.Help {
		return clipAll(helpScreen(head, state.Hints, width, height, [][]key{
			{{"1-6", "select a process"}, {"k", "kill it"}, {"s", "stop it"}, {"p", "pause it"}, {"r", "resume it"}},
			{{"a", "change an argument of all members, which restarts them"}},
			{{"m", "replace a member of every region"}, {"q", "stop everything"}},
		}), width, height)
	}
	top := slices.Concat(head, regionsSummary(state))
	bottom := regionsFooter(state, width)
	room := height - len(top) - len(bottom)
	rows := regionsTable(state, width)
	if len(rows) > room {
		omitted := len(rows) - room + 1
		rows = append(rows[:max(0, room-1)], Line{{fmt.Sprintf("  … and %d more: enlarge the terminal", omitted), Dim}})
	}
	return clipAll(slices.Concat(top, rows, regionsDetails(state, width, room-len(rows)), bottom), width, height)
}

// regionsSummary returns the line about the members and the lock, and the line about clients.
func regionsSummary(state Regions) []Line {
	ready, desired := state.voters()
	line := Line{{sanitize(state.System), Accent}, {"  ", Plain}, {fmt.Sprintf("%d of %d members voting", ready, desired), goodOrWarn(ready == desired)}}
	if leader := state.leader(); leader != "" {
		line = append(line, Span{" · ", Plain}, Span{sanitize(leader) + " leads", Good})
	} else {
		line = append(line, Span{" · ", Plain}, Span{"no leader", Bad})
	}
	switch coordination := &state.Coordination; {
	case coordination.Problem != "":
		line = append(line, Span{" · coordination unknown: " + sanitize(coordination.Problem), Warn})
	case coordination.Holder != "":
		lock := fmt.Sprintf("%s, token %d, for %s", sanitize(coordination.Holder), coordination.Token, age(state.Now.Sub(coordination.Since)))
		line = append(line, Span{" · lock: ", Plain}, Span{lock, Warn})
	default:
		line = append(line, Span{" · lock free", Dim})
	}
	return []Line{line, clientsLine(state.Clients), nil}
}

func clientsLine(c Clients) Line {
	line := Line{{"client", Accent}, {"  ", Plain}}
	if c.Problem != "" {
		line = append(line, Span{"writes fail · ", Bad})
	}
	failed, slow := Good, Plain
	if c.Failed > 0 {
		failed = Warn
	}
	if c.Slowest > SlowWrite {
		slow = Warn
	}
	return append(line,
		Span{prose.Count(c.Writes, "write") + ", ", Plain}, Span{fmt.Sprintf("%d failed", c.Failed), failed},
		Span{fmt.Sprintf(", %d slow · ", c.Slow), Plain}, Span{fmt.Sprintf("slowest in the last minute %d ms", c.Slowest.Milliseconds()), slow},
		Span{" · " + leaderChanges(c.Elections), Plain})
}

func leaderChanges(n int) string {
	if n == 1 {
		return "1 leader change"
	}
	return fmt.Sprintf("%d leader changes", n)
}

// regionsDetails returns the plan, events and hints. They fill the room exactly.
func regionsDetails(state Regions, width, room int) []Line {
	const (
		minimum   = 3 // an empty line, a title and a line
		wholePlan = 9
	)
	hints := connectionLines(state.Hints, width)
	if room < len(hints)+minimum {
		hints = nil
	}
	if commands := suggestionLines(state.Hints, width); len(hints)+len(commands)+wholePlan+2*minimum <= room {
		hints = append(hints, commands...)
	}
	var lines []Line
	left := room - len(hints)
	if left >= minimum {
		share := left
		if left >= 2*minimum {
			share = max(minimum, min(wholePlan, left/2))
		}
		lines = append(lines, section(share, func(room int) []Line { return plan(state, room) })...)
		left -= share
	}
	if left >= minimum {
		lines = append(lines, section(left, func(room int) []Line { return events(state.Events, room) })...)
	}
	return append(fill(lines, room-len(hints)), hints...)
}

// plan returns the steps of the current intent, and the actions that wait.
func plan(state Regions, room int) []Line {
	lines := []Line{planTitle(state)}
	waits := state.Coordination.Waits
	if current := state.Coordination.Plan; current != nil {
		waits = waits[:min(len(waits), max(0, room-1-len(current.Steps)))]
		lines = append(lines, steps(current, state.waiting(current.By), room-1-len(waits))...)
	}
	for _, wait := range waits[:min(len(waits), max(0, room-len(lines)))] {
		lines = append(lines, Line{{"  " + sanitize(wait), Dim}})
	}
	return lines
}

func planTitle(state Regions) Line {
	title := Line{{"Plan", Bold}}
	current := state.Coordination.Plan
	if current != nil {
		return append(title, Span{"  " + sanitize(current.Action), Accent},
			Span{fmt.Sprintf(", by %s, for %s", sanitize(current.By), age(state.Now.Sub(current.Since))), Plain})
	}
	switch holder := state.Coordination.Holder; {
	case state.Coordination.Problem != "":
		return append(title, Span{"  unknown", Dim})
	case holder != "":
		title = append(title, Span{"  " + sanitize(holder) + " acts for its own region", Accent})
		if waiting := state.waiting(holder); waiting != "" {
			title = append(title, Span{": " + sanitize(waiting), Warn})
		}
		return title
	}
	title = append(title, Span{"  no action", Dim})
	if state.Coordination.Done != "" {
		title = append(title, Span{"; last: " + sanitize(state.Coordination.Done), Dim})
	}
	return title
}

// waiting returns the wait reasons of an operator, or an empty string.
func (s *Regions) waiting(operator string) string {
	for _, region := range s.Regions {
		if region.Operator.Name == operator {
			return region.Waiting
		}
	}
	return ""
}

// steps returns the steps of a plan, or those around the current one if there is not enough room,
// with the wait reasons of the operator.
func steps(current *coordinationstatus.PlanSummary, waiting string, room int) []Line {
	first := 0
	if omitted := len(current.Steps) - room; omitted > 0 {
		first = max(0, min(omitted, current.At-room/2))
	}
	var lines []Line
	for n := first; n < len(current.Steps) && len(lines) < room; n++ {
		step := current.Steps[n]
		mark, style := "  ", Plain
		switch {
		case n < current.At:
			mark, style = "✓ ", Dim
		case n == current.At:
			mark, style = "› ", Good
		}
		count := fmt.Sprintf("%d/%d", len(current.Steps), len(current.Steps))
		line := Line{
			{"  " + mark + pad(fmt.Sprintf("%d/%d", n+1, len(current.Steps)), len(count)) + "  ", style},
			{pad(sanitize(step.What), nameWidth), style},
		}
		if note := cmp.Or(step.Note, waiting); n == current.At && note != "" {
			line = append(line, Span{" " + sanitize(note), Warn})
		}
		lines = append(lines, line)
	}
	return lines
}

func regionsFooter(state Regions, width int) []Line {
	message := Line{}
	if state.Message != "" {
		message = Line{{sanitize(state.Message), Accent}}
	}
	end := []key{{"?", "help"}, {"q", "quit"}}
	all := []key{{"1-6", "select"}, {"k", "kill"}, {"s", "stop"}, {"p", "pause"}, {"r", "resume"}}
	return []Line{message, firstThatFits(width,
		slices.Concat(all, []key{{"a", "restart all members"}, {"m", "replace one per region"}}, end),
		slices.Concat(all, []key{{"a", "restart"}, {"m", "replace"}}, end),
		slices.Concat([]key{{"1-6 k s p r a m", ""}}, end),
		end)}
}
