package view

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// Log writes changes as lines until ctx ends, starting from a state.
func Log(ctx context.Context, source Source, out io.Writer, before State) {
	logChanges(ctx, out, before, source.State, Changes, Summary)
}

// LogRegions does the same for an etcd cluster in several regions.
func LogRegions(ctx context.Context, source RegionsSource, out io.Writer, before Regions) {
	logChanges(ctx, out, before, source.State, RegionChanges, RegionsSummary)
}

// logChanges writes changes as lines. It writes a new summary when it has not changed for an
// interval, or after maxDelay intervals.
func logChanges[S any](ctx context.Context, out io.Writer, before S, current func() S, changes func(before, after S) []string, summarize func(S) string) {
	const interval, maxDelay = time.Second, 10
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	written, delayed := summarize(before), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		after := current()
		for _, line := range changes(before, after) {
			fmt.Fprintln(out, line)
		}
		summary := summarize(after)
		if delayed++; summary == written {
			delayed = 0
		} else if summary == summarize(before) || delayed >= maxDelay {
			fmt.Fprintln(out, time.Now().Format(time.TimeOnly)+"  "+summary)
			written, delayed = summary, 0
		}
		before = after
	}
}

// Changes returns a line for each change from one state to a later one.
func Changes(before, after State) []string {
	log := eventLines(before.Events, after.Events)
	log.leases(before, after)
	log.moves(before, after)
	if before.Ring.Problem != after.Ring.Problem {
		log.add(after.Now, "ring %s: %s", after.Ring.Name, cmp.Or(sanitize(after.Ring.Problem), "ready"))
	}
	return log.lines
}

// changeLog collects lines.
type changeLog struct{ lines []string }

func (l *changeLog) add(at time.Time, format string, args ...any) {
	l.lines = append(l.lines, at.Format(time.TimeOnly)+"  "+fmt.Sprintf(format, args...))
}

// eventLines returns a log with the events that are new.
func eventLines(before, after []Event) *changeLog {
	log := &changeLog{}
	seen := 0
	if n := len(before); n > 0 {
		seen = before[n-1].Number
	}
	for _, event := range after {
		if event.Number > seen {
			log.add(event.At, "%s: %s", sanitize(event.About), sanitize(event.Message))
		}
	}
	return log
}

func (l *changeLog) leases(before, after State) {
	known := map[string]Instance{}
	for _, instance := range slices.Concat(before.Instances, before.Sharders) {
		known[instance.Name] = instance
	}
	for _, instance := range slices.Concat(after.Instances, after.Sharders) {
		if was := known[instance.Name]; was.Lease != instance.Lease {
			l.add(after.Now, "%s: lease %s → %s", instance.Name, cmp.Or(was.Lease, "none"), cmp.Or(instance.Lease, "none"))
		}
	}
}

// moves adds one line for each pair of shards.
func (l *changeLog) moves(before, after State) {
	counts := map[string]int{}
	for _, move := range last(after.Moves, after.Moved-before.Moved) {
		counts[sanitize(move.From)+" → "+sanitize(move.To)]++
	}
	for _, shards := range slices.Sorted(maps.Keys(counts)) {
		l.add(after.Now, "moved %s: %s", prose.Count(counts[shards], after.Objects.Name), shards)
	}
}

// Summary returns the number of objects, in total and for each instance.
func Summary(state State) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %d ready", prose.Count(state.Objects.Total, state.Objects.Name), state.Objects.Ready)
	if state.Objects.Unassigned > 0 {
		fmt.Fprintf(&text, ", %d unassigned", state.Objects.Unassigned)
	}
	if state.Objects.Orphaned > 0 {
		fmt.Fprintf(&text, ", %d orphaned", state.Objects.Orphaned)
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
