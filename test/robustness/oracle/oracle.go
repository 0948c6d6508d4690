package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// Rule is what was violated.
type Rule string

// The rules, by the invariant that they belong to.
const (
	// Overlap (I1): two reconciles of one object at the same time.
	Overlap Rule = "I1 overlap"
	// Foreign (I1): a shard started to reconcile an object that was not its own.
	Foreign Rule = "I1 foreign object"
	// NoLease (I1): a process started a reconcile after it had lost its Lease.
	NoLease Rule = "I1 without lease"
	// Unowned (I2): an object had no live shard for too long.
	Unowned Rule = "I2 without owner"
	// Apart: a controlled object was on another shard than its controller for too long.
	Apart Rule = "I2 apart"
	// LeftOwner: a controlled object left a shard that still had its controller and worked on it.
	LeftOwner Rule = "I2 left its owner"
	// Refused (I3): a request of a user failed.
	Refused Rule = "I3 refused"
	// Delayed (I3): a request of a user waited for Ringmaster for too long.
	Delayed Rule = "I3 delayed"
	// MovedTwice (I4): an object moved more often than the changes of membership asked for.
	MovedTwice Rule = "I4 moved twice"
	// Misplaced (I4): an object moved to a shard that it did not belong to.
	Misplaced Rule = "I4 moved elsewhere"
	// Restless (I5): something other than a renewal was written although everything had come to rest.
	Restless Rule = "I5 written at rest"
	// EndState (I6): an object is not where it belongs in the end.
	EndState Rule = "I6 end state"
	// Content (I6): the controlled objects of an object are not what they should be in the end.
	Content Rule = "I6 content"
)

// Violation is one case of a broken promise.
type Violation struct {
	Rule   Rule
	Object history.Object
	// Processes are the processes or, where none acted, the shards that are concerned.
	Processes []string
	From, To  time.Time
	Detail    string
}

func (v Violation) String() string {
	const clock = "15:04:05.000"
	return fmt.Sprintf("%s: %s [%s] %s to %s (%s): %s", v.Rule, v.Object, strings.Join(v.Processes, ", "),
		v.From.Format(clock), v.To.Format(clock), v.To.Sub(v.From).Round(time.Millisecond), v.Detail)
}

// Options are what the oracle has to know of the run.
type Options struct {
	// Main and Controlled are the kinds that the ring spreads. Other objects in the history count
	// only for what is written at rest.
	Main, Controlled []schema.GroupKind
	// Namespace is where the ring's objects are, if not everywhere.
	Namespace string
	// Sharder is the name under which the API server notes the sharder's writes.
	Sharder string
	// Staleness is how long a shard may act on an object that somebody else took from it. A live
	// shard gives its objects away itself, so it is nothing, unless labels were changed by hand.
	Staleness time.Duration
	// ByHand are the objects whose labels somebody changed by hand. They alone are allowed the
	// Staleness. Where they were in the meantime is nobody's fault; where they are in the end is.
	ByHand map[history.Object]bool
	// Lag is how much later than its reader the record may have seen a write. It counts only for a
	// reconcile that did not say which version it had read.
	Lag time.Duration
	// Wake is within what time a reconcile has to end after its process has woken up without Lease.
	Wake time.Duration
	// Unowned and Apart are how long an object may be without a live shard, and away from its
	// controller.
	Unowned, Apart time.Duration
	// Steps is how many requests after each other are part of such a time. Each may be as slow as the slowest reference
	// request meanwhile, so that nobody is accused of a busy machine.
	Steps int
	// Settle is how long before and after a change of membership an object may already or still go
	// where it belonged on the other side of it.
	Settle time.Duration
	// Delay is how much longer a user's request may take than the slowest reference request during the same time. The
	// zero value is any time.
	Delay time.Duration
	// Children are the controlled objects that a main object must have in the end, with their content. It is nil if
	// that is not known.
	Children func(main *history.Write) map[history.Object]string
	// Quiet is when nothing may be written but renewals of Leases. The zero value is never.
	Quiet Window
	// Counted are versions of which the record has every write to the cluster. The zero value is none.
	Counted Versions
}

// Versions are the writes between two of them.
type Versions struct{ After, Before uint64 }

// Report is what came of a run.
type Report struct {
	Violations []Violation
	Figures    Figures
}

// Check judges a history, whose events are in the order of time.
func Check(events []history.Event, options Options) Report {
	r := &run{Options: options, timeline: newTimeline(events)}
	for _, check := range []func(){
		r.overlaps, r.starts, r.owners, r.families, r.requests, r.moves, r.rest, r.unrecorded, r.endState, r.content,
	} {
		check()
	}
	r.figures.Reconciles = len(r.reconciles)
	slices.SortStableFunc(r.violations, func(a, b Violation) int { return a.From.Compare(b.From) })
	return Report{Violations: r.violations, Figures: r.figures}
}

// run is one judgement.
type run struct {
	Options
	*timeline
	violations []Violation
	figures    Figures
}

func (r *run) found(rule Rule, object history.Object, from, to time.Time, processes []string, detail string, args ...any) {
	r.violations = append(r.violations, Violation{
		Rule: rule, Object: object, Processes: processes, From: from, To: to, Detail: fmt.Sprintf(detail, args...),
	})
}

// staleness is how long a shard may act on an object that it no longer has.
func (r *run) staleness(object history.Object) time.Duration {
	if r.ByHand[object] {
		return r.Staleness
	}
	return 0
}

func (r *run) main(o *object) bool { return r.selects(o) && slices.Contains(r.Main, o.GroupKind()) }
func (r *run) controlled(o *object) bool {
	return r.selects(o) && slices.Contains(r.Controlled, o.GroupKind())
}

// selects reports whether the ring selects the object's namespace.
func (r *run) selects(o *object) bool { return r.Namespace == "" || r.Namespace == o.Namespace }
