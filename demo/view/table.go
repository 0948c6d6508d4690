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
	// from is how wide the terminal has to be for it.
	from int
	cell func(State, Instance) Span
}

var columns = []column{
	{"PROCESS", 15, 60, process},
	{"LEASE", 10, 0, lease},
	{"AGE", 7, 70, func(state State, i Instance) Span { return Span{age(state, i), Plain} }},
	{"PID", 8, 100, func(_ State, i Instance) Span { return Span{number(i.PID), Plain} }},
	{"RESTARTS", 9, 90, func(_ State, i Instance) Span { return Span{strconv.Itoa(i.Restarts), restarted(i)} }},
}

// table shows all processes, and how much each has to do.
func table(state State, width int) []Line {
	names := len("INSTANCE")
	for _, instance := range append(append([]Instance{}, state.Instances...), state.Sharders...) {
		names = max(names, len(instance.Name))
	}
	names = min(names, max(12, width/3))
	head := Line{{"    " + pad("INSTANCE", names+1), Dim}}
	for _, column := range columns {
		if width >= column.from {
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
		lines = append(lines, remark(line, instance, width))
	}
	for _, instance := range state.Sharders {
		line := row(state, instance, "", names, width)
		lines = append(lines, remark(line, instance, width))
	}
	return lines
}

// number is one, or nothing for none.
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
	if len(key) > 1 { // there is no such key
		key = ""
	}
	line := Line{{mark + pad(key, 1) + " ", Bold}, {pad(tail(clean(instance.Name), names), names), style}, {" ", Plain}}
	for _, column := range columns {
		if width >= column.from {
			cell := column.cell(state, instance)
			line = append(line, Span{pad(cell.Text, column.width-1), cell.Style}, Span{" ", Plain})
		}
	}
	return line
}

// process is what the process is doing.
func process(state State, instance Instance) Span {
	switch supervisor.Phase(instance.Process) {
	case supervisor.Running:
		return Span{"running", Good}
	case supervisor.Waiting:
		wait := max(0, instance.Again.Sub(state.Now))
		return Span{fmt.Sprintf("down, %ds left", int((wait+time.Second-1)/time.Second)), Bad}
	case supervisor.Paused, supervisor.Stopped:
		return Span{instance.Process, Bad}
	case supervisor.Starting, supervisor.Stopping:
	}
	return Span{instance.Process, Warn}
}

// lease is what others know of it: whether it leads, or is a member.
func lease(_ State, instance Instance) Span {
	switch {
	case instance.Leaving:
		return Span{"leaving", Warn}
	case instance.Lease == leaseReady:
		return Span{instance.Lease, Good}
	case membership.State(instance.Lease).Member():
		return Span{instance.Lease, Warn}
	case instance.Lease != "":
		return Span{instance.Lease, Bad}
	case instance.Leads && instance.PID == 0:
		return Span{"held", Bad} // until it runs out
	case instance.Leads:
		return Span{"leads", Good}
	case instance.Candidate && instance.PID != 0:
		return Span{"waits", Dim}
	}
	return Span{"–", Dim}
}

func age(state State, instance Instance) string {
	if instance.Since.IsZero() {
		return ""
	}
	return short(state.Now.Sub(instance.Since))
}

func restarted(instance Instance) Style {
	if instance.Restarts > 0 {
		return Warn
	}
	return Plain
}

const (
	countWidth = 6
	widestBar  = 40
)

// bars is how many cells an object has, so that the longest bar fits.
func bars(state State, room int) float64 {
	most := 1
	for _, instance := range state.Instances {
		most = max(most, instance.Objects)
	}
	room = max(0, min(room, widestBar))
	return min(1, float64(room)/float64(most))
}

// bar shows how many objects an instance has. Those that it is to let go are at the end.
func bar(instance Instance, scale float64) Line {
	kept, going := instance.Objects-instance.Draining, instance.Draining
	cells := func(n int) int {
		if n == 0 || scale == 0 {
			return 0
		}
		return max(1, int(float64(n)*scale+0.5))
	}
	return Line{
		{fmt.Sprintf("%*d ", countWidth-1, instance.Objects), Plain},
		{strings.Repeat("█", cells(kept)), Accent},
		{strings.Repeat("▒", cells(going)), Warn},
	}
}

// remark says at the end of a line what is special, if there is room.
func remark(line Line, instance Instance, width int) Line {
	const least = 12
	room := width - line.width() - 2
	if instance.Note == "" || room < least {
		return line
	}
	note := clean(instance.Note)
	if instance.PID != 0 {
		note = "restarted: " + note
	}
	return append(line, Span{"  " + note, Dim}).clip(width)
}
