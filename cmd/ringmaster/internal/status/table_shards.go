package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
	"github.com/ringmaster-project/ringmaster/internal/membership"
)

// shardsTable returns a table of a ring's shards, with the number of objects of each kind.
func (r *Ring) shardsTable(counted bool, now time.Time, wide bool) *terminal.Table {
	t := &terminal.Table{Indent: "  "}
	titles := head("SHARD", "NAMESPACE", "STATE", "LEASE AGE")
	if wide {
		titles = append(titles, head("SINCE", "RENEWED")...)
	}
	if wide && counted {
		titles = append(titles, head("DRAINING")...)
	}
	first := len(titles) // column of the first number
	kinds := r.columns(wide)
	for _, kind := range kinds {
		titles = append(titles, terminal.Cell{Text: kind.title, Colour: terminal.Faint, Right: true})
	}
	t.Add(append(titles, terminal.Cell{Text: "OBJECTS", Colour: terminal.Faint, Right: true})...)
	for i := range r.Shards {
		t.Add(r.Shards[i].row(kinds, counted, now, wide)...)
	}
	if counted && r.Total.Unassigned > 0 {
		t.Add(totals("(none)", first, kinds, func(c *Counts) terminal.Cell { return positive(c.Unassigned, terminal.Bad) }, r.Total)...)
	}
	if counted {
		t.Add(totals("(all)", first, kinds, func(c *Counts) terminal.Cell { return number(c.Objects) }, r.Total)...)
	} else {
		t.Add(r.publishedTotals(first, kinds)...)
	}
	return t
}

// column is a kind in the table of shards.
type column struct {
	Kind
	title string
}

// columns returns the columns of the kinds. A title has the group in the wide table, and if two kinds need it.
func (r *Ring) columns(wide bool) []column {
	sameName := map[string]int{}
	for _, kind := range r.Kinds {
		sameName[schema.ParseGroupResource(kind.Resource).Resource]++
	}
	var columns []column
	for _, kind := range r.Kinds {
		title := schema.ParseGroupResource(kind.Resource).Resource
		if wide || sameName[title] > 1 {
			title = kind.Resource
		}
		columns = append(columns, column{kind, strings.ToUpper(title)})
	}
	return columns
}

func (s *Shard) row(kinds []column, counted bool, now time.Time, wide bool) []terminal.Cell {
	row := []terminal.Cell{
		{Text: s.Name, Colour: terminal.Strong},
		text(cmp.Or(s.Namespace, none)),
		s.stateCell(now),
		text(age(s.Created, now)),
	}
	if wide {
		row = append(row, text(age(s.Since, now)), text(age(s.Renewed, now)))
	}
	if wide && counted {
		row = append(row, positive(s.Draining, terminal.Doubtful))
	}
	for _, kind := range kinds {
		if counted && kind.Counts == nil {
			row = append(row, unknownNumber())
			continue
		}
		row = append(row, s.objectsCell(s.objectsOf(kind.Resource)))
	}
	return append(row, s.objectsCell(ptr.Deref(s.Total, 0), s.Total != nil))
}

// objectsCell returns a number of objects, if it is known.
func (s *Shard) objectsCell(objects int, known bool) terminal.Cell {
	switch {
	case known:
		return number(objects)
	case s.Member:
		return unknownNumber()
	}
	return terminal.Cell{Text: none, Right: true}
}

// stateCell returns the state, and that the renewal of the Lease is late before the sharder shows it.
func (s *Shard) stateCell(now time.Time) terminal.Cell {
	cell := terminal.Cell{Text: s.displayState(), Colour: stateColour(s.displayState())}
	if age := s.unrenewedFor(now); age > 0 {
		cell.Text += fmt.Sprintf(" (renewed %s ago)", duration.HumanDuration(age))
		cell.Colour = terminal.Doubtful
	}
	return cell
}

func stateColour(state string) terminal.Colour {
	switch state {
	case string(membership.Ready), stateLeading:
		return terminal.Good
	case "", StateLeft:
		return terminal.Plain
	case stateLeaving, stateCordoned, stateNotRenewing, string(membership.Expired), string(membership.Uncertain), StateUnknown:
		return terminal.Doubtful
	}
	return terminal.Bad
}

// totals returns a row over all shards, as they were counted.
func totals(title string, first int, kinds []column, value func(*Counts) terminal.Cell, total *Counts) []terminal.Cell {
	row := append([]terminal.Cell{{Text: title, Colour: terminal.Faint}}, make([]terminal.Cell, first-1)...)
	for _, kind := range kinds {
		if kind.Counts == nil {
			row = append(row, unknownNumber())
			continue
		}
		row = append(row, value(kind.Counts))
	}
	return append(row, value(total))
}

// publishedTotals returns a row over all members, as they publish their numbers.
func (r *Ring) publishedTotals(first int, kinds []column) []terminal.Cell {
	row := append([]terminal.Cell{{Text: "(all)", Colour: terminal.Faint}}, make([]terminal.Cell, first-1)...)
	for _, kind := range kinds {
		sum, allKnown := 0, r.Members > 0
		for i := range r.Shards {
			objects, known := r.Shards[i].objectsOf(kind.Resource)
			sum += objects
			allKnown = allKnown && (known || !r.Shards[i].Member)
		}
		cell := number(sum)
		if !allKnown {
			cell = unknownNumber()
		}
		row = append(row, cell)
	}
	return append(row, terminal.Cell{Text: r.objects(), Right: true})
}
