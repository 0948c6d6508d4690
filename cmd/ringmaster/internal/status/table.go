package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
	"github.com/ringmaster-project/ringmaster/internal/membership"
)

// none is shown where there is nothing.
const none = "-"

func head(titles ...string) []terminal.Cell {
	row := make([]terminal.Cell, len(titles))
	for i, title := range titles {
		row[i] = terminal.Cell{Text: title, Colour: terminal.Faint}
	}
	return row
}

func text(s string) terminal.Cell { return terminal.Cell{Text: s} }

func number(n int) terminal.Cell { return terminal.Cell{Text: strconv.Itoa(n), Right: true} }

// alarming is a number that should be 0.
func alarming(n int, colour terminal.Colour) terminal.Cell {
	cell := number(n)
	if n > 0 {
		cell.Colour = colour
	}
	return cell
}

// summary is a table of rings.
func summary(rings []Ring, now time.Time, wide bool) *terminal.Table {
	t := &terminal.Table{}
	titles := head("RING", "READY", "SHARDS", "OBJECTS", "UNASSIGNED", "STRANDED", "DRAINING", "BALANCE", "SHARDER")
	if wide {
		titles = append(titles, head("NOT SPREAD", "REASON")...)
	}
	t.Add(titles...)
	for i := range rings {
		r := &rings[i]
		objects := strconv.Itoa(r.Total.Objects)
		if slices.ContainsFunc(r.Kinds, func(k Kind) bool { return k.Counts == nil }) {
			objects += "+?" // something could not be counted
		}
		row := []terminal.Cell{
			{Text: r.Name, Colour: terminal.Strong},
			{Text: string(r.Ready.Status), Colour: statusColour(r.Ready.Status)},
			text(fmt.Sprintf("%d/%d", r.Available, counted(r.Shards))),
			text(objects),
			alarming(r.Total.Unassigned, terminal.Bad),
			alarming(r.Total.Stranded, terminal.Bad),
			drains(&r.Total, now),
			text(ratio(r.Balance)),
			text(whoShards(r.Sharders, wide)),
		}
		if wide {
			row = append(row, number(r.Total.NotSpread), text(cmp.Or(r.Ready.Reason, none)))
		}
		t.Add(row...)
	}
	for _, row := range t.Rows { // numbers, and their titles
		for column := 2; column <= 7; column++ {
			row[column].Right = true
		}
	}
	return t
}

// counted is how many shards have a Lease that the ring takes, and have not given it up.
func counted(shards []Shard) (n int) {
	for i := range shards {
		if slices.Contains(membership.States, membership.State(shards[i].State)) {
			n++
		}
	}
	return n
}

// leads is a table of who leads.
func leads(leaders []Leader, now time.Time, wide bool) *terminal.Table {
	t := &terminal.Table{}
	titles := head("OPERATOR", "NAMESPACE", "LEADER", "STATE", "FOR", "RENEWED", "WORKS ON")
	if wide {
		titles = append(titles, head("LEASE", "HOLDER", "CHANGES")...)
	}
	t.Add(titles...)
	for i := range leaders {
		l := &leaders[i]
		var resources []string
		for _, resource := range l.Resources {
			if !wide {
				resource = schema.ParseGroupResource(resource).Resource
			}
			resources = append(resources, resource)
		}
		row := []terminal.Cell{
			{Text: l.Name, Colour: terminal.Strong},
			text(l.Namespace), text(cmp.Or(l.Instance, none)),
			{Text: l.State(), Colour: stateColour(l.State())},
			text(age(l.Since, now)), text(age(l.Renewed, now)),
			text(cmp.Or(strings.Join(resources, ", "), "?")),
		}
		if wide {
			row = append(row, text(l.Lease), text(cmp.Or(l.Holder, none)), text(strconv.Itoa(int(l.Transitions))))
		}
		t.Add(row...)
	}
	return t
}

func statusColour(status metav1.ConditionStatus) terminal.Colour {
	switch status {
	case metav1.ConditionTrue:
		return terminal.Good
	case metav1.ConditionFalse:
		return terminal.Bad
	default:
		return terminal.Doubtful
	}
}

func drains(counts *Counts, now time.Time) terminal.Cell {
	cell := alarming(counts.Draining, terminal.Doubtful)
	if counts.OldestDrain != nil {
		cell.Text += fmt.Sprintf(" (%s)", age(counts.OldestDrain, now))
	}
	return cell
}

func ratio(balance float64) string {
	if balance == 0 {
		return none
	}
	return strconv.FormatFloat(balance, 'f', 2, 64)
}

func whoShards(sharders []Sharder, wide bool) string {
	var words []string
	for _, s := range sharders {
		word := s.Kind
		if s.Holder != "" && (wide || s.Kind == InProcess) {
			word += ": " + s.Holder
		}
		if s.Silent {
			word += " (silent)"
		}
		if s.Unseen {
			word += " (not seen)"
		}
		words = append(words, word)
	}
	return cmp.Or(strings.Join(words, ", "), "nobody")
}

func age(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return none
	}
	return duration.HumanDuration(max(0, now.Sub(t.Time)))
}

// matrix is a table of a ring's shards, with what each has of each kind.
func (r *Ring) matrix(now time.Time, wide bool) *terminal.Table {
	t := &terminal.Table{Indent: "  "}
	titles := head("SHARD", "NAMESPACE", "STATE", "LEASE AGE")
	if wide {
		titles = append(titles, head("SINCE", "RENEWED", "DRAINING")...)
	}
	kinds := r.columns(wide)
	for _, kind := range kinds {
		titles = append(titles, terminal.Cell{Text: kind.title, Colour: terminal.Faint, Right: true})
	}
	t.Add(append(titles, terminal.Cell{Text: "OBJECTS", Colour: terminal.Faint, Right: true})...)
	for i := range r.Shards {
		t.Add(r.Shards[i].row(kinds, now, wide)...)
	}
	if r.Total.Unassigned > 0 {
		t.Add(sums("(none)", kinds, wide, func(c *Counts) terminal.Cell { return alarming(c.Unassigned, terminal.Bad) }, &r.Total)...)
	}
	t.Add(sums("(all)", kinds, wide, func(c *Counts) terminal.Cell { return number(c.Objects) }, &r.Total)...)
	return t
}

// column is a kind in the table of shards.
type column struct {
	Kind
	title string
}

// columns are the kinds that the API server knows. Their groups are shown only where it takes them to tell
// two apart, or in the wide table.
func (r *Ring) columns(wide bool) []column {
	short := map[string]int{}
	for _, kind := range r.Kinds {
		short[schema.ParseGroupResource(kind.Resource).Resource]++
	}
	var columns []column
	for _, kind := range r.Kinds {
		title := schema.ParseGroupResource(kind.Resource).Resource
		if wide || short[title] > 1 {
			title = kind.Resource
		}
		columns = append(columns, column{kind, strings.ToUpper(title)})
	}
	return columns
}

func (s *Shard) row(kinds []column, now time.Time, wide bool) []terminal.Cell {
	row := []terminal.Cell{
		{Text: s.Name, Colour: terminal.Strong},
		text(cmp.Or(s.Namespace, none)),
		s.state(now),
		text(age(s.Created, now)),
	}
	if wide {
		row = append(row, text(age(s.Since, now)), text(age(s.Renewed, now)), alarming(s.Draining, terminal.Doubtful))
	}
	for _, kind := range kinds {
		if kind.Counts == nil {
			row = append(row, terminal.Cell{Text: "?", Right: true, Colour: terminal.Doubtful})
			continue
		}
		row = append(row, number(s.Objects[kind.Resource]))
	}
	return append(row, number(s.Total))
}

// state is what the sharder shows, and that the shard is late if that is not shown yet.
func (s *Shard) state(now time.Time) terminal.Cell {
	cell := terminal.Cell{Text: s.shown(), Colour: stateColour(s.shown())}
	if silent := s.silence(now); silent > 0 {
		cell.Text += fmt.Sprintf(" (silent for %s)", duration.HumanDuration(silent))
		cell.Colour = terminal.Doubtful
	}
	return cell
}

func stateColour(state string) terminal.Colour {
	switch state {
	case string(membership.Ready), stateLeads:
		return terminal.Good
	case "", StateLeft:
		return terminal.Plain
	case stateLeaving, stateCordoned, stateSilent, string(membership.Expired), string(membership.Uncertain), StateUnknown:
		return terminal.Doubtful
	}
	return terminal.Bad
}

// sums is a row over all shards.
func sums(title string, kinds []column, wide bool, value func(*Counts) terminal.Cell, total *Counts) []terminal.Cell {
	row := []terminal.Cell{{Text: title, Colour: terminal.Faint}, {}, {}, {}}
	if wide {
		row = append(row, make([]terminal.Cell, 3)...)
	}
	for _, kind := range kinds {
		if kind.Counts == nil {
			row = append(row, terminal.Cell{Text: "?", Right: true, Colour: terminal.Doubtful})
			continue
		}
		row = append(row, value(kind.Counts))
	}
	return append(row, value(total))
}

// concerns are what is not well with a ring, in words.
func (r *Ring) concerns() []string {
	var words []string
	for _, condition := range append([]Condition{r.Ready}, r.Conditions...) {
		if condition.Status != metav1.ConditionTrue && condition.Message != "" {
			words = append(words, fmt.Sprintf("%s is %s: %s", condition.Type, condition.Status, condition.Message))
		}
	}
	return append(words, r.Warnings...)
}
