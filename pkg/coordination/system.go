package coordination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// System is implemented by the adopter, for the participant's part of the managed system. Any method may be called again for the same
// action or step, also by another process or participant that continues it, so each method checks the system before it changes it.
type System interface {
	// Needs returns the current needs of this participant's members. The view was read before the call.
	Needs(ctx context.Context, view *View) (Needs, error)
	// Plan returns the steps of an action, in sequence, for members that are ready for it. It is called on the participant that
	// acts for all. If it returns no steps, or NotYet, the action does not begin now.
	Plan(ctx context.Context, proposal Proposal) ([]Step, error)
	// Execute carries out a step for this participant's members or, if the step is not an order, for all members. It returns nil
	// when the step is done, NotYet to be called again, Failed if the step cannot be done and no part of it is in progress, and
	// Fenced if the system has seen a newer token. After any other error it is called again too.
	Execute(ctx context.Context, task Task) error
	// Healthy returns nil if the plan may continue after a step, NotYet while it may not, and Failed if it never can. It is called
	// on the participant that acts for all.
	Healthy(ctx context.Context, step Step) error
}

// Replanner is a System that plans again after each step, because the system may have changed.
type Replanner interface {
	// Replan returns the remaining steps of an intent. The steps before intent.StepIndex are done, except for the members in intent.LeftOut.
	// The first remaining step may be carried out at once: Replan returns NotYet while that is not possible, and Failed to give the
	// action up.
	Replan(ctx context.Context, intent *Intent) ([]Step, error)
}

// Fencer is a System that can refuse late operations, such as those of a participant that has accepted an order and hangs.
type Fencer interface {
	// Fence makes the system refuse operations on members under an older token. It returns NotYet while such an operation is in
	// progress. After it has returned nil, the action continues without these members.
	Fence(ctx context.Context, members []MemberID, token int64) error
}

// Needs are the needs of a participant's members.
type Needs struct {
	// Members are all members of this participant. It carries out the orders for them.
	Members []MemberID
	// Pending are the actions that members need.
	Pending []Need
}

// Need declares that a member needs an action.
type Need struct {
	Action Action
	Member MemberID
	// Ready is set when this participant has prepared the member for the action.
	Ready bool
	// Addresses are published when the member is ready, for the participant that acts for all.
	Addresses []string
}

// entries returns the entries that declare the needs.
func (n Needs) entries() (wantedEntries, error) {
	wanted := wantedEntries{}
	for _, need := range n.Pending {
		if err := need.Action.check(); err != nil {
			return nil, fmt.Errorf("%s needs an invalid action: %w", need.Member, err)
		}
		pending, ready := need.Action.Sets()
		wanted.Add(pending, need.Member)
		if need.Ready {
			wanted.Add(ready, need.Member, need.Addresses...)
		}
	}
	return wanted, nil
}

// needed returns the needs by member. They are not from the store, so they count as newer than all entries.
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
	// Mode is Local if only the members of this participant are known. Steps with Together then include only these.
	Mode  Mode
	Class string
	// Members are the members that the action disturbs.
	Members Members
	// View is the state on which the action was decided. In local mode it is empty.
	View *View
}

// IDs returns the members in order.
func (p Proposal) IDs() []MemberID { return slices.Sorted(maps.Keys(p.Members)) }

// Task is a step for Execute.
type Task struct {
	// Step is the step to carry out. If it is an order, it has only the members of this participant.
	Step
	// ID identifies the step. It is unique in the system, and the same for every process and every attempt.
	ID string
	// Token grows with every holder of the lock. A system that can compare tokens should refuse one that is older than the newest seen.
	Token int64
}

// NotYet is returned while something is not done or not possible: the method is called again later. Result.WaitReasons has the reason.
func NotYet(format string, args ...any) error { return &notYetError{fmt.Sprintf(format, args...)} }

type notYetError struct{ reason string }

func (e *notYetError) Error() string { return e.reason }

// Failed is returned by Execute, Healthy and Replan for a step or an action that cannot be done. The reason is recorded.
func Failed(format string, args ...any) error { return &failedError{fmt.Sprintf(format, args...)} }

type failedError struct{ reason string }

func (e *failedError) Error() string { return e.reason }

// Fenced is returned by Execute when the system has refused a token because it has seen a newer one, for example before the store
// was restored from a backup. The step is then ordered again under a token above the given one.
func Fenced(newestToken int64) error { return &fencedError{newestToken} }

type fencedError struct{ seen int64 }

func (e *fencedError) Error() string { return fmt.Sprintf("the system has seen token %d", e.seen) }

// contradiction returns the error for a system that refuses a token although it claims to have seen only older ones.
func (e *fencedError) contradiction(step Step, token int64) error {
	return fmt.Errorf("the system refused to %s under token %d, although the newest token that it has seen is %d: return Failed, or another error", step, token, e.seen)
}

// notYetReason returns the reason of a NotYet error. It returns any other error, also one that is joined with NotYet, as it is.
func notYetReason(err error) (reason string, other error) {
	if _, joined := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); joined {
		return "", err
	}
	if notYet, ok := errors.AsType[*notYetError](err); ok {
		return notYet.reason, nil
	}
	return "", err
}
