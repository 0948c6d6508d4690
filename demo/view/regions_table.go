package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// regionsColumns are where things are in the table.
type regionsColumns struct{ name, state, does, age, pid int }

func columnsFor(state Regions, width int) regionsColumns {
	c := regionsColumns{name: len("PROCESS "), state: 15, age: 7, pid: 8}
	for _, region := range state.Regions {
		c.name = max(c.name, len(region.Operator.Name)+1)
		for _, member := range region.Members {
			c.name = max(c.name, len(member.ID)+3)
		}
	}
	c.name = min(c.name, max(12, width/3))
	const narrow, least, most, rest = 100, 38, 60, 26
	if width < narrow {
		c.age, c.pid = 0, 0
		c.does = max(0, width-4-c.name-c.state)
		return c
	}
	c.does = max(least, min(most, width-4-c.name-c.state-c.age-c.pid-rest))
	return c
}

// row is a line of the table.
func (c regionsColumns) row(mark Span, name, state, does Span, age, pid, rest string) Line {
	line := Line{mark, {pad(name.Text, c.name-1), name.Style}, {" ", Plain}, {pad(state.Text, c.state-1), state.Style}, {" ", Plain}}
	if c.does > 1 {
		line = append(line, Span{pad(does.Text, c.does-1), does.Style}, Span{" ", Plain})
	}
	if c.age > 0 {
		line = append(line, Span{pad(age, c.age), Plain}, Span{pad(pid, c.pid), Plain}, Span{rest, Dim})
	}
	return line
}

// regionsTable has the operators, each with the members of its region below it, and then the agents.
func regionsTable(state Regions, width int) []Line {
	c := columnsFor(state, width)
	dim := func(text string) Span { return Span{text, Dim} }
	lines := []Line{c.row(Span{"    ", Plain}, dim("PROCESS"), dim("STATE"), dim("DOES"), "AGE", "PID", "ARGUMENTS")}
	for i, region := range state.Regions {
		lines = append(lines, c.process(state, region.Operator, i+1, state.roleOf(region)))
		for _, member := range region.Members {
			lines = append(lines, c.member(state, member))
		}
	}
	for i, region := range state.Regions {
		lines = append(lines, c.process(state, region.Agent, len(state.Regions)+i+1, Span{"runs the members of " + region.Name, Dim}))
	}
	return lines
}

func (c regionsColumns) process(state Regions, instance Instance, key int, does Span) Line {
	mark, name := Span{fmt.Sprintf("  %d ", key), Bold}, Span{tail(clean(instance.Name), c.name-1), Plain}
	if instance.Name == state.Selected {
		mark.Text, name.Style = fmt.Sprintf("› %d ", key), Marked
	}
	doing := process(State{Now: state.Now}, instance)
	rest := ""
	if instance.Restarts > 0 {
		rest = fmt.Sprintf("%s: %s", prose.Count(instance.Restarts, "restart"), clean(instance.Note))
	}
	return c.row(mark, name, doing, does, age(State{Now: state.Now}, instance), number(instance.PID), rest)
}

// roleOf is what the operator of a region does.
func (s *Regions) roleOf(region Region) Span {
	role, takesPart := s.Agreement.Roles[region.Operator.Name]
	switch {
	case s.Agreement.Problem != "", role == "" && region.Mode == ModeLocal && region.Operator.PID == 0:
		return Span{"–", Dim}
	case role != "":
		return Span{clean(role), Accent}
	case takesPart:
		return Span{"takes part", Dim}
	case region.Mode == ModeLocal && s.Agreement.Holder == region.Operator.Name:
		return Span{"acts for itself", Accent}
	case region.Mode == ModeLocal && region.Waiting != "":
		return Span{clean(region.Waiting), Warn}
	case region.Mode == ModeLocal:
		return Span{"acts for itself when it has to", Dim}
	}
	return Span{"takes no part", Warn}
}

func (c regionsColumns) member(state Regions, member Member) Line {
	phase := Span{clean(member.Phase), Warn}
	if member.Phase == "Voter" {
		phase.Style = Good
	}
	health, style := condition(member)
	does := []string{health}
	if member.Removing {
		does = append(does, "has to go")
	} else if !member.ArgsCurrent && member.Phase == "Voter" {
		does = append(does, "has other arguments")
	}
	if pending := state.pendingFor(member.ID); pending != "" {
		does = append(does, pending)
		if style == Plain {
			style = Warn
		}
	}
	age := ""
	if !member.Since.IsZero() {
		age = short(state.Now.Sub(member.Since))
	}
	return c.row(Span{"    ", Plain}, Span{"  " + tail(clean(member.ID), max(0, c.name-3)), Plain}, phase,
		Span{clean(strings.Join(does, ", ")), style}, age, number(member.PID), clean(member.Args))
}

// condition is how a member is doing.
func condition(member Member) (string, Style) {
	switch {
	case member.Leader:
		return "leads", Plain
	case member.Healthy:
		return "well", Plain
	case member.Phase == "Prepared":
		return "not started", Dim
	case member.Phase == "Learner":
		return "catches up", Warn
	case member.Phase == "Leaving":
		return "not a member any more", Dim
	}
	return "not well", Bad
}

// pendingFor is what a member waits for: of several things the one that is nearest to being done.
func (s *Regions) pendingFor(id string) string {
	order := []string{"being done", "in the plan", "ready", "not ready"}
	best, found := len(order), ""
	for _, pending := range s.Agreement.Pending {
		if at := slices.Index(order, pending.State); pending.Member == id && at >= 0 && at < best {
			best, found = at, pending.Action+" "+pending.State
		}
	}
	return found
}
