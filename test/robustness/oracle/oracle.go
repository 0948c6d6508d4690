package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// Rule is a rule that a run can violate.
type Rule string

// The rules, with their invariants.
const (
	// Overlap (I1): two reconciles of one object at the same time.
	Overlap Rule = "I1 overlap"
	// Foreign (I1): a shard started to reconcile an object that it did not own.
	Foreign Rule = "I1 foreign object"
	// NoLease (I1): a process started a reconcile after it had lost its Lease.
	NoLease Rule = "I1 without lease"
	// Unowned (I2): an object had no live shard for too long.
	Unowned Rule = "I2 without owner"
	// Apart (I2): a controlled object was on another shard than its controller for too long.
	Apart Rule = "I2 apart"
	// LeftOwner (I2): a controlled object left a shard that still owned and reconciled its controller.
	LeftOwner Rule = "I2 left its owner"
	// Refused (I3): a request of a user failed.
	Refused Rule = "I3 refused"
	// Delayed (I3): a request of a user waited for Ringmaster for too long.
	Delayed Rule = "I3 delayed"
	// MovedTwice (I4): an object moved more often than the changes of the members required.
	MovedTwice Rule = "I4 moved twice"
	// Misplaced (I4): an object moved to a shard that is not its owner by the ring.
	Misplaced Rule = "I4 moved elsewhere"
	// WrittenAtRest (I5): something other than a renewal was written at rest.
	WrittenAtRest Rule = "I5 written at rest"
	// EndState (I6): an object does not have the owner by the ring in the end.
	EndState Rule = "I6 end state"
	// Content (I6): the children of an object are not as expected in the end.
	Content Rule = "I6 content"
)

// Violation is a violation of a rule.
type Violation struct {
	Rule   Rule
	Object history.Object
	// Processes are the processes concerned or, if none acted, the shards.
	Processes []string
	From, To  time.Time
	Detail    string
}

func (v Violation) String() string {
	const clock = "15:04:05.000"
	return fmt.Sprintf("%s: %s [%s] %s to %s (%s): %s", v.Rule, v.Object, strings.Join(v.Processes, ", "),
		v.From.Format(clock), v.To.Format(clock), v.To.Sub(v.From).Round(time.Millisecond), v.Detail)
}

// Options describe a run.
type Options struct {
	// Main and Controlled are the kinds of the ring. Other objects in the history count only for writes at
	// rest.
	Main, Controlled []schema.GroupKind
	// Namespace is the namespace of the ring's objects, or "" for all.
	Namespace string
	// Sharder is the field manager of the sharder.
	Sharder string
	// Staleness is how long a shard may reconcile an object that another client assigned to another shard by
	// hand. Otherwise it is zero, because a live shard releases its objects itself.
	Staleness time.Duration
	// ByHand are the objects whose labels were changed by hand. Staleness applies only to them. Their moves
	// are not checked, but their owners in the end are.
	ByHand map[history.Object]bool
	// Lag is the maximum delay of the record compared to a shard's cache. It applies only to reconciles
	// without a version.
	Lag time.Duration
	// Wake is the time within which a reconcile must end after its process was resumed without its Lease.
	Wake time.Duration
	// Unowned and Apart are how long an object may be without a live shard, and away from its
	// controller.
	Unowned, Apart time.Duration
	// Steps is the number of sequential requests in such a time. Each may take as long as the slowest reference request
	// meanwhile, so that a busy machine does not cause violations.
	Steps int
	// Settle is the time before and after a change of the members during which an object may move by either set
	// of members.
	Settle time.Duration
	// Delay is how much longer a user's request may take than the slowest reference request during the same time. Zero
	// means no limit.
	Delay time.Duration
	// Children returns the children that a main object must have in the end, with their content. Nil disables the
	// check.
	Children func(main *history.Write) map[history.Object]string
	// Quiet is the time in which only renewals of Leases may be written.
	Quiet Window
	// Counted is a range of versions of which the record must have every write to the cluster.
	Counted Versions
}

// Versions is an exclusive range of versions.
type Versions struct{ After, Before uint64 }

// Report is the result of a check.
type Report struct {
	Violations []Violation
	Figures    Figures
}

// Check checks a history, whose events are ordered by time.
func Check(events []history.Event, options Options) Report {
	r := &run{Options: options, timeline: newTimeline(events)}
	for _, check := range []func(){
		r.overlaps, r.starts, r.owners, r.children, r.requests, r.moves, r.rest, r.unrecorded, r.endState, r.content,
	} {
		check()
	}
	r.figures.Reconciles = len(r.reconciles)
	slices.SortStableFunc(r.violations, func(a, b Violation) int { return a.From.Compare(b.From) })
	return Report{Violations: r.violations, Figures: r.figures}
}

// run is one check.
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

// staleness returns how long a shard may reconcile an object that it no longer owns.
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
