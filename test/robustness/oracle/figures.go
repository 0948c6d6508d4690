package oracle

import (
	"fmt"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// Figures are the measurements of a run.
type Figures struct {
	Objects, Reconciles int
	// Unowned are the gaps without a live owner, and Apart those on another shard than the
	// controller.
	Unowned, Apart Gaps
	// Requests is the number of users' requests, and Slowest the duration of the slowest. Delay is the maximum by which one
	// exceeded the reference requests during the same time.
	Requests       int
	Slowest, Delay time.Duration
	// Rest is the duration of Options.Quiet, and WrittenAtRest the number of writes in it.
	Rest          time.Duration
	WrittenAtRest int
	// Changes are the figures of each change of the members.
	Changes []Change
}

// Gaps are the times during which a condition of objects did not hold.
type Gaps struct {
	// Longest is the longest gap, and Object its object.
	Longest time.Duration
	Object  history.Object
	// Affected is the number of objects with a gap, and Mean the mean of their longest gaps.
	Affected int
	Mean     time.Duration
}

func (g *Gaps) add(object history.Object, longest time.Duration) {
	if longest <= 0 {
		return
	}
	g.Mean = (g.Mean*time.Duration(g.Affected) + longest) / time.Duration(g.Affected+1)
	g.Affected++
	if longest > g.Longest {
		g.Longest, g.Object = longest, object
	}
}

func (g Gaps) String() string {
	if g.Affected == 0 {
		return "none"
	}
	return fmt.Sprintf("%d objects, %s on average, %s at most (%s)", g.Affected,
		g.Mean.Round(time.Millisecond), g.Longest.Round(time.Millisecond), g.Object)
}

// Change is a change of a ring's members.
type Change struct {
	Before, After []string
	// Objects is the number of main objects, HadToMove the number of those with another owner by the ring
	// afterwards, and Moved the number of moves that it caused.
	Objects, HadToMove, Moved int
}

func (c Change) String() string {
	return fmt.Sprintf("%v → %v: %d of %d objects had to move, %d did",
		c.Before, c.After, c.HadToMove, c.Objects, c.Moved)
}

func (f Figures) String() string {
	lines := []string{
		fmt.Sprintf("%d objects, %d reconciles", f.Objects, f.Reconciles),
		fmt.Sprintf("without a live shard: %s", f.Unowned),
		fmt.Sprintf("away from their controllers: %s", f.Apart),
		fmt.Sprintf("%d requests of users, the slowest %s, at most %s slower than a reference", f.Requests,
			f.Slowest.Round(time.Millisecond), f.Delay.Round(time.Millisecond)),
		fmt.Sprintf("at rest for %s: %d writes", f.Rest.Round(time.Millisecond), f.WrittenAtRest),
	}
	for _, change := range f.Changes {
		lines = append(lines, change.String())
	}
	return strings.Join(lines, "\n")
}
