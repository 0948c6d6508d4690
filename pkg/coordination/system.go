package coordination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// System is what Reconcile asks an operator about its part of the system that it manages with others, and what it has it do.
// All methods may be called again for the same thing, also by another process or another participant that goes on with it,
// so they look at the system before they change it.
type System interface {
	// Needs returns what the members of this participant need now. The view is one from before it looks at them.
	Needs(ctx context.Context, view *View) (Needs, error)
	// Plan returns how an action is done to members that are ready for it, as steps that are done one after the other. It is
	// asked of the participant that acts for all. Without steps, or with NotYet, the action does not begin now.
	Plan(ctx context.Context, proposal Proposal) ([]Step, error)
	// Execute carries out a step for this participant's members, or, if it is not an order, for all. It returns nil when that is
	// done, NotYet to be called again, Failed when it cannot be done and nothing of it is under way, and Fenced when the system has
	// seen a newer token. After any other error it is called again too.
	Execute(ctx context.Context, task Task) error
	// Healthy returns nil if the plan may go on after a step, NotYet while it may not, and Failed when it never will. It is asked
	// of the participant that acts for all.
	Healthy(ctx context.Context, step Step) error
}

// Replanner is a System that plans again after each step, because the system may have changed.
type Replanner interface {
	// Replan returns the steps that are left when the first of an intent's steps, before intent.At, are done or, as
	// intent.LeftOut says, left out. The first of them may be carried out at once: it returns NotYet while that is not possible, and
	// Failed to give the action up.
	Replan(ctx context.Context, intent *Intent) ([]Step, error)
}

// Fencer is a System that can refuse what comes late: an order that was accepted by a participant which hangs.
type Fencer interface {
	// Fence makes the system refuse whatever is done to members under an older token. It returns NotYet while something is still
	// under way. When it has returned nil, the action goes on without them.
	Fence(ctx context.Context, members []MemberID, token int64) error
}

// Needs are what the members of a participant need.
type Needs struct {
	// Members are all that belong to this participant: it carries out the orders for them.
	Members []MemberID
	// Pending are those that need something.
	Pending []Need
}

// Need is that a member needs an action.
type Need struct {
	Action Action
	Member MemberID
	// Ready is set when the action may begin, as far as this participant is concerned.
	Ready bool
	// Addresses are where the member can be reached, for those that act on it. They are published when it is ready.
	Addresses []string
}

// wants are the entries that needs come to.
func (n Needs) wants() (wantedEntries, error) {
	wants := wantedEntries{}
	for _, need := range n.Pending {
		if err := need.Action.check(); err != nil {
			return nil, fmt.Errorf("%s needs what cannot be an action: %w", need.Member, err)
		}
		pending, ready := need.Action.Sets()
		wants.Want(pending, need.Member)
		if need.Ready {
			wants.Want(ready, need.Member, need.Addresses...)
		}
	}
	return wants, nil
}

// needed are the needs by member. Those that nobody has written down count as newer than anything.
func (n Needs) needed() needed {
	all := needed{}
	for _, need := range n.Pending {
		all.add(need.Member, need.Action, math.MaxInt64)
	}
	return all
}

// Proposal is an action that may begin.
type Proposal struct {
	Action Action
	// Mode is Local if only the members of this participant are known. What is done together is done to these alone then.
	Mode  Mode
	Class string
	// Members are those that it is done to.
	Members Members
	// View is what was decided on. In local mode nobody has said anything.
	View *View
}

// IDs returns the members in order.
func (p Proposal) IDs() []MemberID { return slices.Sorted(maps.Keys(p.Members)) }

// Task is a step for Execute.
type Task struct {
	// Step is what is to be done. Of an order, it has only the members of this participant.
	Step
	// ID is the same whoever carries the step out, and however often. It is unique in the system.
	ID string
	// Token grows with every holder of the lock. A system that can compare it refuses an older one than it has seen.
	Token int64
}

// NotYet is returned for what is not done, or not possible, now: it is asked again later. The reason is shown to people.
func NotYet(format string, args ...any) error { return &notYetError{fmt.Sprintf(format, args...)} }

type notYetError struct{ reason string }

func (e *notYetError) Error() string { return e.reason }

// Failed is returned by Execute, Healthy and Replan for what cannot be done. The reason is recorded, and the others are told.
func Failed(format string, args ...any) error { return &failedError{fmt.Sprintf(format, args...)} }

type failedError struct{ reason string }

func (e *failedError) Error() string { return e.reason }

// Fenced is returned by Execute when the system has refused a token because it has seen a newer one, for example before its
// store was restored from a backup. The step is then ordered again under a newer token than that.
func Fenced(seen int64) error { return &fencedError{seen} }

type fencedError struct{ seen int64 }

func (e *fencedError) Error() string { return fmt.Sprintf("the system has seen the token %d", e.seen) }

// unexplained is for a system that refuses a token although it is newer than all that it has seen.
func (e *fencedError) unexplained(step Step, token int64) error {
	return fmt.Errorf("the system refused to %s under the token %d although it has seen no newer one than %d: return Failed, or another error", step, token, e.seen)
}

// why returns the reason of NotYet, and the error if it is another one, or joined with others.
func why(err error) (reason string, other error) {
	if _, joined := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); joined {
		return "", err
	}
	if waits, is := errors.AsType[*notYetError](err); is {
		return waits.reason, nil
	}
	return "", err
}
