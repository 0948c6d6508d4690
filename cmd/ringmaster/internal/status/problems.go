package status

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// Problem is something that --exit-code fails for.
type Problem struct {
	// Type is the kind of problem, for programs.
	Type    ProblemType `json:"type"`
	Message string      `json:"message"`
}

// ProblemType is a kind of problem.
type ProblemType string

// The kinds of problems.
const (
	// NotReady: the condition Ready is not True.
	NotReady ProblemType = "NotReady"
	// NoSharder: no sharder is active, so new objects stay unassigned, and conditions are out of date.
	NoSharder ProblemType = "NoSharder"
	// UnassignedObjects: objects are unassigned.
	UnassignedObjects ProblemType = "Unassigned"
	// OrphanedObjects: objects are orphaned, or a shard is dead and no sharder has noticed.
	OrphanedObjects ProblemType = "Orphaned"
	// OverdueDrains: drains are overdue.
	OverdueDrains ProblemType = "Overdue"
)

// slowDrain is the age from which a drain without a timeout counts as overdue, as in the condition Drained.
const slowDrain = time.Minute

// problems returns the problems of a ring. Without counts it relies on the conditions: their reasons, not their
// messages, are what programs may interpret.
func (f *ringState) problems(r *Ring, now time.Time) []Problem {
	var problems []Problem
	add := func(kind ProblemType, format string, args ...any) {
		problems = append(problems, Problem{kind, fmt.Sprintf(format, args...)})
	}
	if r.Ready.Status != metav1.ConditionTrue && (!f.ringsUnreadable || r.Ready.Status != metav1.ConditionUnknown) {
		add(NotReady, "%s", r.Ready.summary())
	}
	if !f.leasesUnreadable && !f.ringsUnreadable && !anyActive(r.Sharders, "") && r.Ready.Reason != reasonNoSharder {
		add(NoSharder, "no sharder is active")
	}
	for i := range r.Shards {
		if shard := &r.Shards[i]; shard.notTakenOver(now) {
			add(OrphanedObjects, "shard %s has not renewed its Lease for %s, and no sharder has taken the Lease over", shard.Name,
				duration.HumanDuration(shard.unrenewedFor(now)))
		}
	}
	if r.Total == nil {
		return append(problems, f.conditionProblems(r.Conditions)...)
	}
	if r.Total.Unassigned > 0 {
		add(UnassignedObjects, "%s unassigned", prose.Are(r.Total.Unassigned, "object"))
	}
	if r.Total.Orphaned > 0 {
		add(OrphanedObjects, "%s orphaned", prose.Are(r.Total.Orphaned, "object"))
	}
	if oldest := r.Total.OldestDrain; oldest != nil && now.Sub(oldest.Time) >= cmp.Or(f.drainTimeout(), slowDrain) {
		add(OverdueDrains, "drains are overdue: the oldest began %s ago", duration.HumanDuration(now.Sub(oldest.Time)))
	}
	return problems
}

// drainTimeout is the timeout of the ring's drains, or 0 without one.
func (f *ringState) drainTimeout() time.Duration {
	if f.ring == nil || f.ring.Spec.Drain == nil || f.ring.Spec.Drain.Timeout == nil {
		return 0
	}
	return f.ring.Spec.Drain.Timeout.Duration
}

// conditionProblems returns the problems that the sharder reports. A drain that is within its timeout is not one.
func (f *ringState) conditionProblems(conditions []Condition) []Problem {
	var problems []Problem
	for i := range conditions {
		c := &conditions[i]
		overdue := c.Reason == shardingv1alpha1.ReasonDrainTimeout || c.Reason == shardingv1alpha1.ReasonSlowDrain && f.drainTimeout() == 0
		switch {
		case c.Status != metav1.ConditionFalse:
		case c.Type == shardingv1alpha1.ConditionAssigned:
			problems = append(problems, Problem{UnassignedObjects, c.summary()})
		case c.Type == shardingv1alpha1.ConditionDrained && overdue:
			problems = append(problems, Problem{OverdueDrains, c.summary()})
		}
	}
	return problems
}

// summary returns the condition in one line.
func (c *Condition) summary() string {
	text := fmt.Sprintf("%s is %s", c.Type, c.Status)
	if c.Reason != "" {
		text += " (" + c.Reason + ")"
	}
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

// Problems returns the problems of all rings and of all operators without a leader, each with its name.
func (r *Report) Problems() []string {
	var problems []string
	for i := range r.Rings {
		for _, problem := range r.Rings[i].Problems {
			problems = append(problems, fmt.Sprintf("ring %q: %s", r.Rings[i].Name, problem.Message))
		}
	}
	for i := range r.Leaders {
		if r.Leaders[i].Silent {
			problems = append(problems, fmt.Sprintf("operator %q: no instance leads", r.Leaders[i].Name))
		}
	}
	return problems
}
