package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// regionsColumns are the widths of the columns.
type regionsColumns struct{ name, state, activity, age, pid int }

func columnsFor(state Regions, width int) regionsColumns {
	c := regionsColumns{name: len("PROCESS "), state: 15, age: 7, pid: 8}
	for _, region := range state.Regions {
		c.name = max(c.name, len(region.Operator.Name)+1)
		for _, member := range region.Members {
			c.name = max(c.name, len(member.ID)+3)
		}
	}
	c.name = min(c.name, max(12, width/3))
	const wideTerminal, minActivity, maxActivity, args = 100, 38, 60, 26
	if width < wideTerminal {
		c.age, c.pid = 0, 0
		c.activity = max(0, width-4-c.name-c.state)
		return c
	}
	c.activity = max(minActivity, min(maxActivity, width-4-c.name-c.state-c.age-c.pid-args))
	return c
}

// row returns a line of the table.
func (c regionsColumns) row(mark Span, name, state, activity Span, age, pid, args string) Line {
	line := Line{mark, {pad(name.Text, c.name-1), name.Style}, {" ", Plain}, {pad(state.Text, c.state-1), state.Style}, {" ", Plain}}
	if c.activity > 1 {
		line = append(line, Span{pad(activity.Text, c.activity-1), activity.Style}, Span{" ", Plain})
	}
	if c.age > 0 {
		line = append(line, Span{pad(age, c.age), Plain}, Span{pad(pid, c.pid), Plain}, Span{args, Dim})
	}
	return line
}

// regionsTable returns the operators, each with the members of its region below it, and then the
// agents.
func regionsTable(state Regions, width int) []Line {
	c := columnsFor(state, width)
	dim := func(text string) Span { return Span{text, Dim} }
	lines := []Line{c.row(Span{"    ", Plain}, dim("PROCESS"), dim("STATE"), dim("ACTIVITY"), "AGE", "PID", "ARGUMENTS")}
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

func (c regionsColumns) process(state Regions, instance Instance, key int, activity Span) Line {
	mark, name := Span{fmt.Sprintf("  %d ", key), Bold}, Span{truncateLeft(sanitize(instance.Name), c.name-1), Plain}
	if instance.Name == state.Selected {
		mark.Text, name.Style = fmt.Sprintf("› %d ", key), Marked
	}
	phase := process(State{Now: state.Now}, instance)
	restarts := ""
	if instance.Restarts > 0 {
		restarts = fmt.Sprintf("%s: %s", prose.Count(instance.Restarts, "restart"), sanitize(instance.Note))
	}
	return c.row(mark, name, phase, activity, instanceAge(State{Now: state.Now}, instance), number(instance.PID), restarts)
}

// roleOf returns the role of a region's operator.
func (s *Regions) roleOf(region Region) Span {
	role, participates := s.Coordination.Roles[region.Operator.Name]
	switch {
	case s.Coordination.Problem != "", role == "" && region.Mode == ModeLocal && region.Operator.PID == 0:
		return Span{"–", Dim}
	case role != "":
		return Span{sanitize(role), Accent}
	case participates:
		return Span{"participant, idle", Dim}
	case region.Mode == ModeLocal && s.Coordination.Holder == region.Operator.Name:
		return Span{"acts for its region", Accent}
	case region.Mode == ModeLocal && region.Waiting != "":
		return Span{sanitize(region.Waiting), Warn}
	case region.Mode == ModeLocal:
		return Span{"idle", Dim}
	}
	return Span{"not a participant", Warn}
}

func (c regionsColumns) member(state Regions, member Member) Line {
	phase := Span{sanitize(member.Phase), Warn}
	if member.Phase == "Voter" {
		phase.Style = Good
	}
	health, style := condition(member)
	activity := []string{health}
	if member.Removing {
		activity = append(activity, "being replaced")
	} else if !member.ArgsCurrent && member.Phase == "Voter" {
		activity = append(activity, "outdated arguments")
	}
	if pending := state.pendingFor(member.ID); pending != "" {
		activity = append(activity, pending)
		if style == Plain {
			style = Warn
		}
	}
	since := ""
	if !member.Since.IsZero() {
		since = age(state.Now.Sub(member.Since))
	}
	return c.row(Span{"    ", Plain}, Span{"  " + truncateLeft(sanitize(member.ID), max(0, c.name-3)), Plain}, phase,
		Span{sanitize(strings.Join(activity, ", ")), style}, since, number(member.PID), sanitize(member.Args))
}

// condition returns the health of a member.
func condition(member Member) (string, Style) {
	switch {
	case member.Leader:
		return "leads", Plain
	case member.Healthy:
		return "healthy", Plain
	case member.Phase == "Prepared":
		return "not started", Dim
	case member.Phase == "Learner":
		return "catching up", Warn
	case member.Phase == "Leaving":
		return "removed", Dim
	}
	return "unhealthy", Bad
}

// pendingFor returns the pending action of a member: of several actions the most advanced one.
func (s *Regions) pendingFor(id string) string {
	order := []string{"being done", "in the plan", "ready", "not ready"}
	best, found := len(order), ""
	for _, pending := range s.Coordination.Pending {
		if rank := slices.Index(order, pending.State); pending.Member == id && rank >= 0 && rank < best {
			best, found = rank, pending.Action+" "+pending.State
		}
	}
	return found
}
