package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

const (
	// withPeer is where a step has the address at which the system's members reach its member.
	withPeer = "peer"
	// withRegion is where an order has the prefix of who is to carry it out. Afterwards, or when the region has left,
	// nothing else tells whose member it was.
	withRegion = "region"
)

// step carries out a step of a plan.
type step = func(r *round, ctx context.Context, step coordination.Step) (outcome, error)

// outcome is what came of trying a step.
type outcome struct {
	done bool
	// waits says why it is not done yet.
	waits string
	// impossible says why it will never be: what it is a part of is given up.
	impossible string
	// leaveOut says why it is gone on without the member of the step.
	leaveOut string
	// replaced is when other steps take the place of this one and of all that come after it: rest.
	replaced bool
	rest     []coordination.Step
}

func done() outcome { return outcome{done: true} }

func waits(format string, args ...any) outcome { return outcome{waits: fmt.Sprintf(format, args...)} }

// instead lets other steps take the place of the present one.
func (r *round) instead(these ...coordination.Step) outcome {
	_, steps, at := r.task.plan()
	return outcome{replaced: true, rest: append(these, plan.Again(r.planned(), steps, at, r.stillWanted)...)}
}

// laterOr tries a step again that the system does not take now, and returns what else went wrong.
func laterOr(err error) (outcome, error) {
	for _, passing := range []error{system.ErrNotInSync, system.ErrNotNow, system.ErrNoLeader, system.ErrUnreachable, context.DeadlineExceeded} {
		if errors.Is(err, passing) {
			return waits("%v", err), nil
		}
	}
	return outcome{}, err
}

// under ends what is done to the system when the lock is lost.
func (r *round) under(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(r.task.grant.Context(), func() { cancel(coordination.ErrFenced) })
	return ctx
}

// carryOn looks whether this operator may go on with what it does, and ends it when nothing is left to do. If it does
// nothing, it goes on with what another one has left behind.
func (r *round) carryOn(ctx context.Context) error {
	if r.task == nil {
		return r.pickUp(ctx)
	}
	r.lookIn(soon)
	if !r.task.grant.Held() {
		r.lost()
		return nil
	}
	if r.state == nil || !r.state.Agreed {
		r.wait("the system has no quorum", soon)
		return nil
	}
	action, steps, at := r.task.plan()
	step := r.task.step()
	if step == nil {
		return r.finish(ctx, "")
	}
	r.acting = fmt.Sprintf("%s: step %d of %d, %s %s", action, at+1, len(steps), step.Do, step.Member)
	for _, concern := range concerns() {
		if concern.steps[step.Do] != nil {
			return nil
		}
	}
	return r.giveUp(ctx, fmt.Sprintf("this version does not know what %q is", step.Do))
}

// pickUp goes on with what another operator has left behind.
func (r *round) pickUp(ctx context.Context) error {
	intent := r.view.Intent
	if !r.global() || r.c == nil || intent == nil || r.state == nil || !r.state.Agreed {
		return nil
	}
	r.moved = true
	r.acting = fmt.Sprintf("%s by %s: step %d of %d", intent.Action, intent.By, min(intent.At+1, len(intent.Steps)), len(intent.Steps))
	r.lookIn(soon)
	grant, err := r.c.Resume(ctx)
	if err != nil {
		return r.refused(err)
	}
	r.note("PickedUp", fmt.Sprintf("Going on with the %s that %s has left at step %d.", intent.Action, intent.By, intent.At+1))
	r.task = &task{grant: grant}
	return nil
}

// conclude does what follows from a step.
func (r *round) conclude(ctx context.Context, step coordination.Step, result outcome, err error) error {
	_, steps, at := r.task.plan()
	switch {
	case errors.Is(err, coordination.ErrFenced):
		r.lost()
		return nil
	case err != nil:
		return err
	case result.impossible != "":
		return r.giveUp(ctx, result.impossible)
	case result.leaveOut != "":
		return r.leaveOut(ctx, step, result.leaveOut)
	case result.replaced:
		_, err := r.goOn(ctx, result.rest, steps[:at])
		return err
	case !result.done:
		return r.holdOn(ctx, result.waits)
	}
	_, err = r.goOn(ctx, plan.Again(r.planned(), steps, at, r.stillWanted), steps[:at+1])
	return err
}

// goOn goes on to other steps as soon as the first of them may begin: an order is carried out from the moment that it is
// written. It tells whether it has.
func (r *round) goOn(ctx context.Context, rest, before []coordination.Step) (bool, error) {
	for i := range rest {
		r.address(&rest[i])
	}
	if len(rest) > 0 {
		if reason := r.closed(rest[0], before); reason != "" {
			return false, r.holdOn(ctx, reason)
		}
	}
	if err := r.task.advance(ctx, rest); err != nil {
		return false, fenced(err)
	}
	if len(rest) == 0 {
		return true, r.finish(ctx, "")
	}
	return true, nil
}

// leaveOut goes on without the member of a step. Its operator asks again when it can.
func (r *round) leaveOut(ctx context.Context, step coordination.Step, reason string) error {
	_, steps, at := r.task.plan()
	rest := plan.Again(r.planned(), plan.Without(steps, at), at-1, r.stillWanted)
	if at == 0 && len(rest) == 0 {
		return r.giveUp(ctx, reason) // nothing was done
	}
	if dropped, err := r.dropLearner(ctx); err != nil || !dropped.done {
		return r.pause(dropped, err)
	}
	gone, err := r.goOn(ctx, rest, steps[:at])
	if gone {
		r.note("LeftOut", fmt.Sprintf("It goes on without %s: %s", step.Member, reason))
	}
	return err
}

// giveUp ends what was carried out without a success.
func (r *round) giveUp(ctx context.Context, reason string) error {
	if dropped, err := r.dropLearner(ctx); err != nil || !dropped.done {
		return r.pause(dropped, err)
	}
	return r.finish(ctx, reason)
}

func (r *round) pause(result outcome, err error) error {
	switch {
	case errors.Is(err, coordination.ErrFenced):
		r.lost()
		return nil
	case err != nil:
		return err
	}
	r.wait(result.waits, soon)
	return nil
}

// holdOn waits with what is carried out, or gives it up for what it may be waiting for: that a region which does not return
// is removed. Nobody of that region obeys, and without its members there may be no quorum to spare.
func (r *round) holdOn(ctx context.Context, reason string) error {
	if id := r.lostFirst(); id != "" && r.task.global() && r.task.grant.Intent().Action != coordination.Removal {
		return r.giveUp(ctx, fmt.Sprintf("%s of a region that does not return is removed first (%s)", id, reason))
	}
	r.wait(reason, soon)
	return nil
}

// lost gives up what this operator may not go on with.
func (r *round) lost() {
	r.note("LockLost", "The lock is lost; another operator may go on with what was begun.")
	r.task, r.moved = nil, true
}

// fenced lets a round end in peace that has lost the lock: the next one sees it.
func fenced(err error) error {
	if errors.Is(err, coordination.ErrFenced) {
		return nil
	}
	return inStore(err)
}

// finish ends what was carried out.
func (r *round) finish(ctx context.Context, failure string) error {
	action, steps, _ := r.task.plan()
	grant := r.task.grant
	err := grant.Done(ctx, failure)
	if errors.Is(err, coordination.ErrFenced) {
		r.lost()
		return nil
	}
	if err != nil {
		return inStore(err)
	}
	if failure == "" {
		r.note("Acted", fmt.Sprintf("%s is done, all steps (%d), with token %d.", action, len(steps), grant.Token))
	} else {
		r.note("GaveUp", fmt.Sprintf("%s was given up: %s", action, failure))
	}
	r.task, r.moved = nil, true
	return nil
}

// stillWanted tells whether a member's operator has not withdrawn what it asked for.
func (r *round) stillWanted(id coordination.MemberID) bool {
	for _, set := range []coordination.Set{
		coordination.PendingForRemoval, coordination.PendingForExclusion, coordination.PendingForInclusion, coordination.PendingForRestart,
	} {
		if _, wanted := r.wanted(set)[id]; wanted {
			return true
		}
	}
	return false
}

// address tells a step where its member is, and whose.
func (r *round) address(step *coordination.Step) {
	if step.With != nil {
		return
	}
	with := map[string]string{}
	if entry, ready := r.wanted(coordination.ReadyForInclusion)[step.Member]; ready && len(entry.Addresses) > 0 {
		with[withPeer] = entry.Addresses[0]
	}
	if entry, known := r.entry(step.Member); known && step.Order {
		with[withRegion] = entry.Prefix
	}
	if len(with) > 0 {
		step.With = with
	}
}
