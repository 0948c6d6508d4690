package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// Tell says in lines what has happened from one state to a later one, for who does not see frames.
func Tell(before, after State) []string {
	var lines []string
	say := func(at time.Time, format string, args ...any) {
		lines = append(lines, at.Format(time.TimeOnly)+"  "+fmt.Sprintf(format, args...))
	}
	seen := 0
	if n := len(before.Events); n > 0 {
		seen = before.Events[n-1].Number
	}
	for _, event := range after.Events {
		if event.Number > seen {
			say(event.At, "%s: %s", clean(event.About), clean(event.What))
		}
	}
	tellInstances(before, after, say)
	tellMoves(before, after, say)
	if before.Ring.Problem != after.Ring.Problem {
		say(after.Now, "ring %s: %s", after.Ring.Name, cmp.Or(clean(after.Ring.Problem), "ready"))
	}
	return lines
}

func tellInstances(before, after State, say func(time.Time, string, ...any)) {
	known := map[string]Instance{}
	for _, instance := range slices.Concat(before.Instances, before.Sharders) {
		known[instance.Name] = instance
	}
	for _, instance := range slices.Concat(after.Instances, after.Sharders) {
		was := known[instance.Name]
		if was.Lease != instance.Lease {
			say(after.Now, "%s: lease %s → %s", instance.Name, cmp.Or(was.Lease, "none"), cmp.Or(instance.Lease, "none"))
		}
	}
}

// tellMoves sums up: one line for each pair of instances.
func tellMoves(before, after State, say func(time.Time, string, ...any)) {
	counts := map[string]int{}
	for _, move := range last(after.Moves, after.Moved-before.Moved) {
		counts[clean(move.From)+" → "+clean(move.To)]++
	}
	for _, way := range slices.Sorted(maps.Keys(counts)) {
		say(after.Now, "moved %s: %s", prose.Count(counts[way], after.Objects.Name), way)
	}
}

// Count says how many objects there are, and who has how many.
func Count(state State) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %d ready", prose.Count(state.Objects.Total, state.Objects.Name), state.Objects.Ready)
	if state.Objects.Unassigned > 0 {
		fmt.Fprintf(&text, ", %d without a shard", state.Objects.Unassigned)
	}
	separator := ": "
	for _, instance := range state.Instances {
		if instance.Objects > 0 {
			fmt.Fprintf(&text, "%s%s %d", separator, instance.Name, instance.Objects)
			separator = ", "
		}
	}
	return text.String()
}
