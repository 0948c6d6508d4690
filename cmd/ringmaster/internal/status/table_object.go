package status

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
)

// objects is a table of objects with their children.
func objects(all []Object, now time.Time, wide bool) *terminal.Table {
	t := &terminal.Table{}
	titles := head("OBJECT", "NAMESPACE", "RING", "SHARD", "STATE", "FOR", "RING SAYS", "DRAINING")
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
			for at := range p.Children {
				t.Add(p.Children[at].row(at == len(p.Children)-1, p, now)...)
			}
		}
	}
	return t
}

// cells are the shard, its state and since when.
func (h *Held) cells(now time.Time) []terminal.Cell {
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
	words := age(p.Draining.Since, now)
	if p.Draining.To != "" {
		words = fmt.Sprintf("to %s (%s)", p.Draining.To, words)
	}
	return terminal.Cell{Text: words, Colour: terminal.Doubtful}
}

// row is a child below its parent.
func (r *Relative) row(last bool, parent *Place, now time.Time) []terminal.Cell {
	branch := "├ "
	if last {
		branch = "└ "
	}
	if r.Error != "" {
		return []terminal.Cell{{Text: branch + r.Resource, Colour: terminal.Faint}, text(""), text(""), {Text: "not known", Colour: terminal.Doubtful}}
	}
	row := append([]terminal.Cell{text(branch + r.String()), text(""), text("")}, r.cells(now)...)
	if r.Shard != parent.Shard {
		row[3].Colour = terminal.Bad
	}
	return row
}

// reasons say, for each object, why it is where it is.
func reasons(all []Object) []string {
	var words []string
	for i := range all {
		for k := range all[i].Places {
			p := &all[i].Places[k]
			name := all[i].String()
			if len(all[i].Places) > 1 {
				name += " in the ring " + p.Ring
			}
			words = append(words, fmt.Sprintf("%s: %s", name, p.Message))
			for _, child := range p.Children {
				if child.Error != "" {
					words = append(words, fmt.Sprintf("%s are not shown: %s", child.Resource, child.Error))
				}
			}
		}
	}
	return words
}
