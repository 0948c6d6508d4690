package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// FrameRegions draws regions for a terminal of a size. It has at most so many lines, of at most that width.
func FrameRegions(state Regions, width, height int) []Line {
	if width < leastWidth || height < leastHeight {
		return clipAll([]Line{{{"make the terminal larger", Plain}}}, width, height)
	}
	head := header(State{Now: state.Now, Up: state.Up, Kubernetes: state.Kubernetes, Mode: state.Mode}, width)
	if state.Help {
		return clipAll(typed(head, state.Hints, width, height, [][]key{
			{{"1-6", "select a process"}, {"k", "kill it"}, {"s", "stop it"}, {"p", "pause it"}, {"r", "resume it"}},
			{{"a", "another argument for all members, which have to be restarted for it"}},
			{{"m", "replace a member of every region"}, {"q", "stop everything"}},
		}), width, height)
	}
	top := slices.Concat(head, regionsSummary(state))
	bottom := regionsFooter(state, width)
	room := height - len(top) - len(bottom)
	rows := regionsTable(state, width)
	if len(rows) > room {
		hidden := len(rows) - room + 1
		rows = append(rows[:max(0, room-1)], Line{{fmt.Sprintf("  … and %d more: make the terminal higher", hidden), Dim}})
	}
	return clipAll(slices.Concat(top, rows, regionsNews(state, width, room-len(rows)), bottom), width, height)
}

// regionsSummary is how the system is doing, for those who run it and for those who use it.
func regionsSummary(state Regions) []Line {
	ready, wanted := state.votes()
	line := Line{{clean(state.System), Accent}, {"  ", Plain}, {fmt.Sprintf("%d of %d members vote", ready, wanted), worth(ready == wanted)}}
	if leader := state.leader(); leader != "" {
		line = append(line, Span{" · ", Plain}, Span{clean(leader) + " leads", Good})
	} else {
		line = append(line, Span{" · ", Plain}, Span{"nobody leads", Bad})
	}
	switch agreement := &state.Agreement; {
	case agreement.Problem != "":
		line = append(line, Span{" · what the operators agree on is not known: " + clean(agreement.Problem), Warn})
	case agreement.Holder != "":
		held := fmt.Sprintf("%s, token %d, for %s", clean(agreement.Holder), agreement.Token, short(state.Now.Sub(agreement.Since)))
		line = append(line, Span{" · lock: ", Plain}, Span{held, Warn})
	default:
		line = append(line, Span{" · nobody holds the lock", Dim})
	}
	return []Line{line, clientsLine(state.Clients), nil}
}

func clientsLine(c Clients) Line {
	line := Line{{"client", Accent}, {"  ", Plain}}
	if c.Problem != "" {
		line = append(line, Span{"cannot write · ", Bad})
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
		Span{fmt.Sprintf(", %d slow · ", c.Slow), Plain}, Span{fmt.Sprintf("slowest of the last minute %d ms", c.Slowest.Milliseconds()), slow},
		Span{" · " + changes(c.Elections), Plain})
}

func changes(n int) string {
	if n == 1 {
		return "1 change of the leader"
	}
	return fmt.Sprintf("%d changes of the leader", n)
}

// regionsNews are the plan, events and what to type in another terminal, in exactly as many lines as there is room for.
func regionsNews(state Regions, width, room int) []Line {
	const (
		least     = 3 // a gap, a title and a line
		wholePlan = 9
	)
	hints := reach(state.Hints, width)
	if room < len(hints)+least {
		hints = nil
	}
	if commands := tries(state.Hints, width); len(hints)+len(commands)+wholePlan+2*least <= room {
		hints = append(hints, commands...)
	}
	var lines []Line
	left := room - len(hints)
	if left >= least {
		share := left
		if left >= 2*least {
			share = max(least, min(wholePlan, left/2))
		}
		lines = append(lines, section(share, func(room int) []Line { return plan(state, room) })...)
		left -= share
	}
	if left >= least {
		lines = append(lines, section(left, func(room int) []Line { return events(state.Events, room) })...)
	}
	return append(fill(lines, room-len(hints)), hints...)
}

// plan is what is being done, and what waits to be.
func plan(state Regions, room int) []Line {
	lines := []Line{planTitle(state)}
	waits := state.Agreement.Waits
	if doing := state.Agreement.Plan; doing != nil {
		waits = waits[:min(len(waits), max(0, room-1-len(doing.Steps)))]
		lines = append(lines, steps(doing, state.waiting(doing.By), room-1-len(waits))...)
	}
	for _, wait := range waits[:min(len(waits), max(0, room-len(lines)))] {
		lines = append(lines, Line{{"  " + clean(wait), Dim}})
	}
	return lines
}

func planTitle(state Regions) Line {
	title := Line{{"Plan", Bold}}
	doing := state.Agreement.Plan
	if doing != nil {
		return append(title, Span{"  " + clean(doing.Action), Accent},
			Span{fmt.Sprintf(", by %s, for %s", clean(doing.By), short(state.Now.Sub(doing.Since))), Plain})
	}
	switch holder := state.Agreement.Holder; {
	case state.Agreement.Problem != "":
		return append(title, Span{"  not known", Dim})
	case holder != "":
		title = append(title, Span{"  " + clean(holder) + " acts for its own region", Accent})
		if waiting := state.waiting(holder); waiting != "" {
			title = append(title, Span{": " + clean(waiting), Warn})
		}
		return title
	}
	title = append(title, Span{"  nothing is being done", Dim})
	if state.Agreement.Done != "" {
		title = append(title, Span{"; last: " + clean(state.Agreement.Done), Dim})
	}
	return title
}

// waiting is what an operator says that it waits for.
func (s *Regions) waiting(operator string) string {
	for _, region := range s.Regions {
		if region.Operator.Name == operator {
			return region.Waiting
		}
	}
	return ""
}

// steps are those of a plan, of many those around the present one, with what who does it waits for.
func steps(doing *coordinationstatus.PlanSummary, waiting string, room int) []Line {
	first := 0
	if hidden := len(doing.Steps) - room; hidden > 0 {
		first = max(0, min(hidden, doing.At-room/2))
	}
	var lines []Line
	for n := first; n < len(doing.Steps) && len(lines) < room; n++ {
		step := doing.Steps[n]
		mark, style := "  ", Plain
		switch {
		case n < doing.At:
			mark, style = "✓ ", Dim
		case n == doing.At:
			mark, style = "› ", Good
		}
		count := fmt.Sprintf("%d/%d", len(doing.Steps), len(doing.Steps))
		line := Line{
			{"  " + mark + pad(fmt.Sprintf("%d/%d", n+1, len(doing.Steps)), len(count)) + "  ", style},
			{pad(clean(step.What), nameWidth), style},
		}
		if note := cmp.Or(step.Note, waiting); n == doing.At && note != "" {
			line = append(line, Span{" " + clean(note), Warn})
		}
		lines = append(lines, line)
	}
	return lines
}

func regionsFooter(state Regions, width int) []Line {
	answer := Line{}
	if state.Answer != "" {
		answer = Line{{clean(state.Answer), Accent}}
	}
	end := []key{{"?", "help"}, {"q", "quit"}}
	all := []key{{"1-6", "select"}, {"k", "kill"}, {"s", "stop"}, {"p", "pause"}, {"r", "resume"}}
	return []Line{answer, fitting(width,
		slices.Concat(all, []key{{"a", "restart all members"}, {"m", "replace one everywhere"}}, end),
		slices.Concat(all, []key{{"a", "restart"}, {"m", "replace"}}, end),
		slices.Concat([]key{{"1-6 k s p r a m", ""}}, end),
		end)}
}
