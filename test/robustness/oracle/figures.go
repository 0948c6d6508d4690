package oracle

import (
	"fmt"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// Figures are what was measured in a run.
type Figures struct {
	Objects, Reconciles int
	// Unowned is about the time that an object was without a live shard, Apart about the time that
	// it was on another one than its controller.
	Unowned, Apart Gaps
	// Requests is how many requests users made and Slowest how long the slowest took. Delay is how much longer one took
	// than the reference requests during the same time.
	Requests       int
	Slowest, Delay time.Duration
	// Rest is for how long nothing but renewals may have been written, and WrittenAtRest how many writes there were.
	Rest          time.Duration
	WrittenAtRest int
	// Changes are what each change of membership moved.
	Changes []Change
}

// Gaps are the times during which objects lacked something.
type Gaps struct {
	// Longest is the longest one, and Object whose it was.
	Longest time.Duration
	Object  history.Object
	// Affected is how many objects had one at all, Mean the average of their longest ones.
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
	// Objects is how many main objects there were, HadToMove how many of them belonged elsewhere
	// afterwards, and Moved how many moves it was the cause of.
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
