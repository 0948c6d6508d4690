package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/internal/membership"
)

const leaseReady = string(membership.Ready)

// column is a column of the table of processes.
type column struct {
	title string
	width int
	// minTerminalWidth is the width of the terminal from which the column is shown.
	minTerminalWidth int
	cell             func(State, Instance) Span
}

var columns = []column{
	{"PROCESS", 15, 60, process},
	{"LEASE", 10, 0, lease},
	{"AGE", 7, 70, func(state State, i Instance) Span { return Span{instanceAge(state, i), Plain} }},
	{"PID", 8, 100, func(_ State, i Instance) Span { return Span{number(i.PID), Plain} }},
	{"RESTARTS", 9, 90, func(_ State, i Instance) Span { return Span{strconv.Itoa(i.Restarts), restartStyle(i)} }},
}

// table returns the table of processes, with a bar for the objects of each instance.
func table(state State, width int) []Line {
	names := len("INSTANCE")
	for _, instance := range append(append([]Instance{}, state.Instances...), state.Sharders...) {
		names = max(names, len(instance.Name))
	}
	names = min(names, max(12, width/3))
	head := Line{{"    " + pad("INSTANCE", names+1), Dim}}
	for _, column := range columns {
		if width >= column.minTerminalWidth {
			head = append(head, Span{pad(column.title, column.width), Dim})
		}
	}
	title := strings.ToUpper(state.Objects.Name) + "S"
	head = append(head, Span{title, Dim})
	lines := []Line{head}
	scale := bars(state, width-head.width()+len(title)-countWidth)
	for i, instance := range state.Instances {
		line := row(state, instance, number(i+1), names, width)
		line = append(line, bar(instance, scale)...)
		lines = append(lines, withNote(line, instance, width))
	}
	for _, instance := range state.Sharders {
		line := row(state, instance, "", names, width)
		lines = append(lines, withNote(line, instance, width))
	}
	return lines
}

// number formats a number, and 0 as an empty string.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func row(state State, instance Instance, key string, names, width int) Line {
	style, mark := Plain, "  "
	if instance.Name == state.Selected {
		style, mark = Marked, "› "
	}
	if len(key) > 1 { // only single digits are keys
		key = ""
	}
	line := Line{{mark + pad(key, 1) + " ", Bold}, {pad(truncateLeft(sanitize(instance.Name), names), names), style}, {" ", Plain}}
	for _, column := range columns {
		if width >= column.minTerminalWidth {
			cell := column.cell(state, instance)
			line = append(line, Span{pad(cell.Text, column.width-1), cell.Style}, Span{" ", Plain})
		}
	}
	return line
}

// process returns the cell with the phase of the process.
func process(state State, instance Instance) Span {
	switch supervisor.Phase(instance.Process) {
	case supervisor.Running:
		return Span{"running", Good}
	case supervisor.Waiting:
		delay := max(0, instance.RestartAt.Sub(state.Now))
		return Span{fmt.Sprintf("restart in %ds", int((delay+time.Second-1)/time.Second)), Bad}
	case supervisor.Paused, supervisor.Stopped:
		return Span{instance.Process, Bad}
	case supervisor.Starting, supervisor.Stopping:
	}
	return Span{instance.Process, Warn}
}

// lease returns the cell with the state of the Lease: that of the shard, or of the leader election.
func lease(_ State, instance Instance) Span {
	switch {
	case instance.Leaving:
		return Span{"leaving", Warn}
	case instance.Lease == leaseReady:
		return Span{instance.Lease, Good}
	case membership.State(instance.Lease).Member():
		return Span{instance.Lease, Warn}
	case instance.Lease == LeaseLeft:
		return Span{instance.Lease, Plain}
	case instance.Lease != "":
		return Span{instance.Lease, Bad}
	case instance.Leads && instance.PID == 0:
		return Span{"held", Bad} // until it expires
	case instance.Leads:
		return Span{"leads", Good}
	case instance.Candidate && instance.PID != 0:
		return Span{"standby", Dim}
	}
	return Span{"–", Dim}
}

func instanceAge(state State, instance Instance) string {
	if instance.Since.IsZero() {
		return ""
	}
	return age(state.Now.Sub(instance.Since))
}

func restartStyle(instance Instance) Style {
	if instance.Restarts > 0 {
		return Warn
	}
	return Plain
}

const (
	countWidth  = 6
	maxBarWidth = 40
)

// bars returns the number of cells for one object, so that the longest bar fits.
func bars(state State, room int) float64 {
	highest := 1
	for _, instance := range state.Instances {
		highest = max(highest, instance.Objects)
	}
	room = max(0, min(room, maxBarWidth))
	return min(1, float64(room)/float64(highest))
}

// bar returns the bar of the objects of an instance. Draining objects are at the end.
func bar(instance Instance, scale float64) Line {
	kept, draining := instance.Objects-instance.Draining, instance.Draining
	cells := func(n int) int {
		if n == 0 || scale == 0 {
			return 0
		}
		return max(1, int(float64(n)*scale+0.5))
	}
	return Line{
		{fmt.Sprintf("%*d ", countWidth-1, instance.Objects), Plain},
		{strings.Repeat("█", cells(kept)), Accent},
		{strings.Repeat("▒", cells(draining)), Warn},
	}
}

// withNote adds the reason of the last exit to a line, if there is room.
func withNote(line Line, instance Instance, width int) Line {
	const minNote = 12
	room := width - line.width() - 2
	if instance.Note == "" || room < minNote {
		return line
	}
	note := sanitize(instance.Note)
	if instance.PID != 0 {
		note = "restarted: " + note
	}
	return append(line, Span{"  " + note, Dim}).clip(width)
}
