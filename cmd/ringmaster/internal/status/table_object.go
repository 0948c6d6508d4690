package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
)

// objectsTable returns a table of objects with their children.
func objectsTable(all []Object, now time.Time, wide bool) *terminal.Table {
	t := &terminal.Table{}
	titles := head("OBJECT", "NAMESPACE", "RING", "OWNER", "STATE", "FOR", "DESIRED", "DRAINING")
	if wide {
		titles = append(titles, head("REASON", "UID")...)
	}
	t.Add(titles...)
	for i := range all {
		for k := range all[i].Places {
			p := &all[i].Places[k]
			row := []terminal.Cell{
				{Text: all[i].String(), Colour: terminal.Strong},
				text(cmp.Or(all[i].Namespace, none)), text(p.Ring),
			}
			row = append(append(row, p.cells(now)...), p.desired(), p.drain(now))
			if wide {
				row = append(row, text(string(p.Reason)), text(string(all[i].UID)))
			}
			t.Add(row...)
			for j := range p.Children {
				t.Add(p.Children[j].row(j == len(p.Children)-1, p, now)...)
			}
		}
	}
	return t
}

// cells returns the owner, its state, and for how long it has been the owner.
func (h *Ownership) cells(now time.Time) []terminal.Cell {
	since := age(h.Since, now)
	if h.Since != nil && !h.SinceExact {
		since = "≥ " + since
	}
	if h.Shard == "" {
		return []terminal.Cell{text(none), text(none), text(none)}
	}
	return []terminal.Cell{text(h.Shard), {Text: h.State, Colour: stateColour(h.State)}, text(since)}
}

func (p *Place) desired() terminal.Cell {
	cell := text(cmp.Or(p.Desired, none))
	if !p.Agrees {
		cell.Colour = terminal.Doubtful
	}
	return cell
}

func (p *Place) drain(now time.Time) terminal.Cell {
	if p.Draining == nil {
		return text(none)
	}
	since := age(p.Draining.Since, now)
	if p.Draining.To != "" {
		since = fmt.Sprintf("to %s (%s)", p.Draining.To, since)
	}
	return terminal.Cell{Text: since, Colour: terminal.Doubtful}
}

// row returns the row of a child below its parent.
func (r *RelatedObject) row(last bool, parent *Place, now time.Time) []terminal.Cell {
	branch := "├ "
	if last {
		branch = "└ "
	}
	if r.Error != "" {
		return []terminal.Cell{{Text: branch + r.Resource, Colour: terminal.Faint}, text(""), text(""), {Text: notKnown, Colour: terminal.Doubtful}}
	}
	row := append([]terminal.Cell{text(branch + r.String()), text(""), text("")}, r.cells(now)...)
	if r.Shard != parent.Shard {
		row[3].Colour = terminal.Bad
	}
	return row
}

// reasons returns, for each object, why it has its owner and what happens next.
func reasons(all []Object) []string {
	var lines []string
	for i := range all {
		for k := range all[i].Places {
			p := &all[i].Places[k]
			name := all[i].String()
			if len(all[i].Places) > 1 {
				name += " in ring " + p.Ring
			}
			lines = append(lines, fmt.Sprintf("%s: %s", name, p.Message))
			for _, child := range p.Children {
				if child.Error != "" {
					lines = append(lines, fmt.Sprintf("%s are not shown: %s", child.Resource, child.Error))
				}
			}
		}
	}
	return lines
}

// eventsTable returns a table of the events of an object, and of its ring and shards.
func eventsTable(object *Object, now time.Time) *terminal.Table {
	t := &terminal.Table{Indent: "  "}
	t.Add(head("LAST SEEN", "TYPE", "OBJECT", "REASON", "MESSAGE")...)
	for i := range object.Events {
		e := &object.Events[i]
		lastSeen := age(e.Last, now)
		if e.Count > 1 {
			lastSeen += fmt.Sprintf(" (x%d)", e.Count)
		}
		kind := terminal.Cell{Text: e.Type}
		if e.Type == corev1.EventTypeWarning {
			kind.Colour = terminal.Doubtful
		}
		t.Add(text(lastSeen), kind, text(e.About.String()), text(e.Reason), text(oneLine(e.Message)))
	}
	return t
}

// oneLine replaces line breaks and other control characters: everyone who can write events could otherwise change
// what the terminal shows.
func oneLine(message string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, message))
}
