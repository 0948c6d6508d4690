package run

import (
	"fmt"
	"time"
)

// Limits are the conditions under which a run is valid. Beyond them it shows the limits of the load generator or of the machine, and
// not those of the system.
type Limits struct {
	// Lateness is how late operations may start after their due times, for the p99.
	Lateness time.Duration `json:"lateness"`
	// Unfinished is the share of the due operations that may not have ended.
	Unfinished float64 `json:"unfinished"`
	// CPU is the share of the machine's CPU time that may be in use: on average or, in a ramp, when its capacity was judged.
	CPU float64 `json:"cpu"`
	// Others is the share that processes outside of the experiment may use, on average.
	Others float64 `json:"others,omitempty"`
}

// DefaultLimits returns the limits that apply unless flags set others.
func DefaultLimits() Limits {
	return Limits{Lateness: 500 * time.Millisecond, Unfinished: 0.01, CPU: 0.9, Others: 0.2}
}

// alwaysUnfinished is how many operations may be in progress when a run ends, whatever the limit.
const alwaysUnfinished = 10

// check returns why a run is invalid. While the API server restarts, operations are late because of it, and not because of the
// load generator. A ramp uses less of the machine on average than when its capacity is judged.
func (l Limits) check(g Generator, capacity *Capacity, restarts bool) (reasons []string) {
	if late := seconds(g.Late); late > l.Lateness && !restarts {
		reasons = append(reasons, fmt.Sprintf("the load generator fell behind: the p99 of operations started %s after they were due (--max-lateness %s)",
			late.Round(time.Millisecond), l.Lateness))
	}
	if missing := g.Planned - g.Done - g.Failed; missing > max(l.Unfinished*g.Planned, alwaysUnfinished) {
		reasons = append(reasons, fmt.Sprintf("the load generator fell behind: %.0f of %.0f operations did not end (--max-unfinished %g)", missing, g.Planned, l.Unfinished))
	}
	busy, when := g.Busy, ""
	if capacity != nil {
		busy, when = capacity.Busy, " at the capacity"
	}
	if busy > l.CPU && l.CPU < 1 { // the measured share of a saturated machine can exceed 1, because reading it takes time
		reasons = append(reasons, fmt.Sprintf("the machine was saturated: %.0f%% of its CPU time was in use%s (--max-cpu %g)", 100*busy, when, l.CPU))
	}
	if g.Others > l.Others && l.Others < 1 {
		reasons = append(reasons, fmt.Sprintf("other processes used %.0f%% of the machine's CPU time (--max-other-cpu %g)", 100*g.Others, l.Others))
	}
	return reasons
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
