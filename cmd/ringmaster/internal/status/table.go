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

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
	"github.com/ringmaster-project/ringmaster/internal/membership"
)

const (
	// none is shown for a value that does not exist.
	none = "-"
	// notKnown is shown for a value that is not known.
	notKnown = "?"
)

func head(titles ...string) []terminal.Cell {
	row := make([]terminal.Cell, len(titles))
	for i, title := range titles {
		row[i] = terminal.Cell{Text: title, Colour: terminal.Faint}
	}
	return row
}

func text(s string) terminal.Cell { return terminal.Cell{Text: s} }

func number(n int) terminal.Cell { return terminal.Cell{Text: strconv.Itoa(n), Right: true} }

func unknownNumber() terminal.Cell {
	return terminal.Cell{Text: notKnown, Right: true, Colour: terminal.Doubtful}
}

// positive returns a number that has a colour unless it is 0.
func positive(n int, colour terminal.Colour) terminal.Cell {
	cell := number(n)
	if n > 0 {
		cell.Colour = colour
	}
	return cell
}

// ringsTable returns a table with a row for each ring.
func ringsTable(r *Report, wide bool) *terminal.Table {
	t := &terminal.Table{}
	titles := head("RING", "READY", "SHARDS", "OBJECTS")
	if r.Counted {
		titles = append(titles, head("UNASSIGNED", "ORPHANED", "DRAINING")...)
	} else {
		titles = append(titles, head("ASSIGNED", "DRAINED")...)
	}
	titles = append(titles, head("IMBALANCE", "SHARDER")...)
	if wide && r.Counted {
		titles = append(titles, head("NOT SHARDED")...)
	}
	if wide {
		titles = append(titles, head("REASON")...)
	}
	t.Add(titles...)
	for i := range r.Rings {
		t.Add(r.Rings[i].row(r, wide)...)
	}
	for _, row := range t.Rows { // numbers, and their titles
		for column, title := range t.Rows[0] {
			row[column].Right = slices.Contains([]string{"SHARDS", "OBJECTS", "UNASSIGNED", "ORPHANED", "DRAINING", "IMBALANCE", "NOT SHARDED"}, title.Text)
		}
	}
	return t
}

func (r *Ring) row(report *Report, wide bool) []terminal.Cell {
	row := []terminal.Cell{
		{Text: r.Name, Colour: terminal.Strong},
		{Text: string(r.Ready.Status), Colour: statusColour(r.Ready.Status)},
		text(fmt.Sprintf("%d/%d", r.Available, countLeases(r.Shards))),
		text(r.objects()),
	}
	if r.Total != nil {
		row = append(row, positive(r.Total.Unassigned, terminal.Bad), positive(r.Total.Orphaned, terminal.Bad), drains(r.Total, report.Time.Time))
	} else {
		row = append(row, r.conditionCell(shardingv1alpha1.ConditionAssigned, terminal.Bad), r.conditionCell(shardingv1alpha1.ConditionDrained, terminal.Doubtful))
	}
	row = append(row, text(r.imbalance()), text(sharderNames(r.Sharders, wide)))
	if wide && r.Total != nil {
		row = append(row, number(r.Total.NotSharded))
	}
	if wide {
		row = append(row, text(cmp.Or(r.Ready.Reason, none)))
	}
	return row
}

// objects returns the number of objects, with "+?" if there may be more.
func (r *Ring) objects() string {
	switch {
	case r.Total != nil && slices.ContainsFunc(r.Kinds, func(k Kind) bool { return k.Counts == nil }):
		return strconv.Itoa(r.Total.Objects) + "+" + notKnown
	case r.Objects != nil:
		return strconv.Itoa(*r.Objects)
	}
	published := 0
	for i := range r.Shards {
		for _, number := range r.Shards[i].Objects {
			published += number
		}
	}
	if published == 0 {
		return notKnown
	}
	return strconv.Itoa(published) + "+" + notKnown
}

// conditionCell returns the status of a condition, with a colour if it is False.
func (r *Ring) conditionCell(kind string, colour terminal.Colour) terminal.Cell {
	i := slices.IndexFunc(r.Conditions, func(c Condition) bool { return c.Type == kind })
	if i < 0 {
		return terminal.Cell{Text: notKnown, Colour: terminal.Doubtful}
	}
	cell := terminal.Cell{Text: string(r.Conditions[i].Status)}
	switch r.Conditions[i].Status {
	case metav1.ConditionFalse:
		cell.Colour = colour
	case metav1.ConditionUnknown:
		cell.Colour = terminal.Doubtful
	case metav1.ConditionTrue:
	}
	return cell
}

func (r *Ring) imbalance() string {
	switch {
	case r.Imbalance != 0:
		return strconv.FormatFloat(r.Imbalance, 'f', 2, 64)
	case len(r.unpublished()) > 0:
		return notKnown
	}
	return none
}

// unpublished returns the names of the members whose number of objects is not known.
func (r *Ring) unpublished() []string {
	var names []string
	for i := range r.Shards {
		if r.Shards[i].Member && r.Shards[i].Total == nil {
			names = append(names, r.Shards[i].Name)
		}
	}
	return names
}

// countLeases returns the number of shards with a Lease that the ring accepts, except those that have released it.
func countLeases(shards []Shard) (n int) {
	for i := range shards {
		if slices.Contains(membership.States, membership.State(shards[i].State)) {
			n++
		}
	}
	return n
}

// leadersTable returns a table with a row for each leader.
func leadersTable(leaders []Leader, now time.Time, wide bool) *terminal.Table {
	t := &terminal.Table{}
	titles := head("OPERATOR", "NAMESPACE", "LEADER", "STATE", "FOR", "RENEWED", "RESOURCES")
	if wide {
		titles = append(titles, head("LEASE", "HOLDER", "TRANSITIONS")...)
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
			text(cmp.Or(strings.Join(resources, ", "), notKnown)),
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
	cell := positive(counts.Draining, terminal.Doubtful)
	if counts.OldestDrain != nil {
		cell.Text += fmt.Sprintf(" (%s)", age(counts.OldestDrain, now))
	}
	return cell
}

func sharderNames(sharders []Sharder, wide bool) string {
	var names []string
	for _, s := range sharders {
		name := s.Kind
		if s.Holder != "" && (wide || s.Kind == InProcess) {
			name += ": " + s.Holder
		}
		if s.Silent {
			name += " (not active)"
		}
		if s.Unseen {
			name += " (no Lease)"
		}
		names = append(names, name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

func age(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return none
	}
	return duration.HumanDuration(max(0, now.Sub(t.Time)))
}

// concerns returns the conditions that are not True, and the warnings.
func (r *Ring) concerns() []string {
	var concerns []string
	for _, condition := range append([]Condition{r.Ready}, r.Conditions...) {
		// Policies are optional: -o json shows whether a ring is fenced.
		if condition.Status != metav1.ConditionTrue && condition.Message != "" && (condition.Type != shardingv1alpha1.ConditionFenced || condition.Reason == shardingv1alpha1.ReasonUnboundShards) {
			concerns = append(concerns, condition.summary())
		}
	}
	return append(concerns, r.Warnings...)
}
