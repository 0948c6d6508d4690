package run

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
)

// Objective is something that has to hold, for 99 of 100.
type Objective struct {
	Name string `json:"name"`
	// Limit is in seconds.
	Limit float64 `json:"limit"`
	// Coarse is one whose histogram knows powers of ten only: between two of them it is a guess.
	Coarse bool `json:"coarse,omitempty"`
	// buckets are the histogram that it is about.
	buckets string
}

// Objectives are those of the original evaluation.
func Objectives() []Objective {
	const mutating, reading = `apiserver_request_duration_seconds_bucket{verb=~"POST|PUT|PATCH|DELETE|APPLY"}`, `apiserver_request_duration_seconds_bucket{verb=~"GET|LIST"}`
	return []Objective{
		{"queue: a Website waits for a worker", 1, true, `workqueue_queue_duration_seconds_bucket{name="website"}`},
		{"ready: from a change to the observed generation being Ready", 5, false, load.ReadyTime + "_bucket"},
		{"API server: mutating requests", 1, false, mutating},
		{"API server: reads", 1, false, reading},
	}
}

// quantile is how long 99 of 100 took at most.
const quantile = 0.99

// question asks for it, over a time.
func (o Objective) question(over time.Duration) string {
	return fmt.Sprintf("histogram_quantile(%g, sum by (le) (increase(%s[%dms])))", quantile, o.buckets, milliseconds(over))
}

func milliseconds(of time.Duration) int64 { return max(1, of.Milliseconds()) }

// Verdict is whether an objective holds.
type Verdict struct {
	Objective
	// Value is what was measured, in seconds; nothing if nothing was.
	Value *float64 `json:"value"`
	Holds bool     `json:"holds"`
}

// judge looks whether an objective holds over the time until then.
func judge(ctx context.Context, book *measure.Book, o Objective, over time.Duration, at time.Time) (Verdict, error) {
	value, known, err := book.One(ctx, o.question(over), at)
	switch {
	case err != nil:
		return Verdict{}, err
	case !known || math.IsNaN(value):
		return Verdict{Objective: o}, nil // who has measured nothing has not shown anything
	}
	return Verdict{Objective: o, Value: &value, Holds: value <= o.Limit}, nil
}
