package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

const (
	// withPeer is where a step has the address at which the system's members reach its member.
	withPeer = "peer"
	// withRegion is where the order to stop a member has the prefix of who is to do it. Afterwards nothing else tells
	// whose member it was, and somebody has to answer.
	withRegion = "region"
)

// outcome is what came of trying a step.
type outcome struct {
	done bool
	// waits says why it is not done yet.
	waits string
	// impossible says why it will never be.
	impossible string
}

func done() outcome { return outcome{done: true} }

func waits(format string, args ...any) outcome { return outcome{waits: fmt.Sprintf(format, args...)} }

// drive goes on with what this operator carries out: it does one step, or looks whether it has been done.
func (r *round) drive(ctx context.Context) error {
	if r.task == nil {
		return nil
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
	result, err := r.carryOut(ctx, *step)
	switch {
	case errors.Is(err, coordination.ErrFenced):
		r.lost()
		return nil
	case err != nil:
		return err
	case result.impossible != "":
		return r.finish(ctx, result.impossible)
	case !result.done:
		return r.holdOn(ctx, result.waits)
	}
	return r.goOn(ctx, steps, at)
}

// goOn goes to the next step as soon as it may begin: an order is carried out from the moment that it is written.
func (r *round) goOn(ctx context.Context, steps []coordination.Step, at int) error {
	rest := plan.Again(r.planned(), steps, at, r.stillWanted)
	for i := range rest {
		r.address(&rest[i])
	}
	if len(rest) == 0 {
		if err := r.task.advance(ctx, rest); err != nil {
			return fenced(err)
		}
		return r.finish(ctx, "")
	}
	if reason := r.closed(rest[0], steps[:at+1]); reason != "" {
		return r.holdOn(ctx, reason)
	}
	return fenced(r.task.advance(ctx, rest))
}

// holdOn waits with what is carried out, or gives it up for what it may be waiting for: that a region which does not return
// is removed. Nobody of that region obeys, and without its members there may be no quorum to spare.
func (r *round) holdOn(ctx context.Context, reason string) error {
	if id := r.lostFirst(); id != "" && r.task.global() && r.task.grant.Intent().Action != coordination.Removal {
		return r.finish(ctx, fmt.Sprintf("%s of a region that does not return is removed first (%s)", id, reason))
	}
	r.wait(reason, soon)
	return nil
}

// lost gives up what this operator may not go on with.
func (r *round) lost() {
	r.note("LockLost", "The lock is lost; another operator may go on with what was begun.")
	r.task, r.finished = nil, true
}

// fenced lets a round end in peace that has lost the lock: the next one sees it.
func fenced(err error) error {
	if errors.Is(err, coordination.ErrFenced) {
		return nil
	}
	return err
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
		return err
	}
	if failure == "" {
		r.note("Acted", fmt.Sprintf("%s is done, in %d steps, with token %d.", action, len(steps), grant.Token))
	} else {
		r.note("GaveUp", fmt.Sprintf("%s was given up: %s", action, failure))
	}
	r.task, r.finished = nil, true
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

// address tells a step where its member is.
func (r *round) address(step *coordination.Step) {
	if step.With != nil {
		return
	}
	if entry, ready := r.wanted(coordination.ReadyForInclusion)[step.Member]; ready && len(entry.Addresses) > 0 {
		step.With = map[string]string{withPeer: entry.Addresses[0]}
		return
	}
	if entry, known := r.entry(step.Member); known && step.Do == plan.Stop {
		step.With = map[string]string{withRegion: entry.Prefix}
	}
}

// carryOut does a step, or looks whether the member's operator has done it.
func (r *round) carryOut(ctx context.Context, step coordination.Step) (outcome, error) {
	switch step.Do {
	case plan.AddLearner:
		return r.addLearner(ctx, step)
	case plan.Promote:
		return r.promote(ctx, step)
	case plan.MoveLeader:
		return r.moveLeader(ctx, step)
	case plan.Remove:
		return r.remove(ctx, step)
	case plan.Start, plan.Restart, plan.Stop:
		return r.ordered(ctx, step)
	}
	return outcome{impossible: fmt.Sprintf("this version does not know what %q is", step.Do)}, nil
}

// ordered looks whether an order has been carried out. In local mode the member is this operator's own, and it
// carries it out itself.
func (r *round) ordered(ctx context.Context, step coordination.Step) (outcome, error) {
	if !r.task.global() {
		order := &coordination.Order{Step: step, Intent: r.task.grant.Token, At: r.task.at, Token: r.task.grant.Token}
		if r.carriedOut(order) {
			return r.settled(step), nil
		}
		if failure, err := r.obeyOne(ctx, order); err != nil || failure != "" {
			return outcome{impossible: failure}, err
		}
		return waits("%s has to be done to %s", step.Do, step.Member), nil // the next round sees what came of it
	}
	answer := r.task.grant.Answered(r.view)
	switch {
	case answer == nil:
		return r.unanswered(step), nil
	case answer.Failure != "":
		return outcome{impossible: fmt.Sprintf("%s of %s: %s", step.Do, step.Member, answer.Failure)}, nil
	}
	return r.settled(step), nil
}

// carriedOut tells whether the agent had carried an order out when this round began to look.
func (r *round) carriedOut(order *coordination.Order) bool {
	process, there := r.processes[string(order.Member)]
	if order.Do == plan.Stop {
		return !there
	}
	return there && process.LastOrder == orderID(order)
}

// settled waits until a member that was restarted is well again.
func (r *round) settled(step coordination.Step) outcome {
	if step.Do != plan.Restart {
		return done()
	}
	if m, known := r.find(step.Member, ""); known && !m.Healthy() {
		return waits("%s is not well again yet: %s", step.Member, m.Health.Problem)
	}
	return done()
}

// unanswered decides what becomes of an order that nobody has answered.
func (r *round) unanswered(step coordination.Step) outcome {
	if !r.stillWanted(step.Member) && step.Do == plan.Restart {
		return done() // withdrawn before it was carried out, or carried out by one that has left since
	}
	entry, known := r.entry(step.Member)
	if known && !r.view.Takes(entry.Prefix) {
		options := &r.cluster.Spec.AutomationOptions
		gone := fmt.Sprintf("the operator of %s is gone and cannot %s %s", entry.Prefix, step.Do, step.Member)
		if options.Missing == "LeaveOut" || r.overdue(step) {
			return outcome{impossible: gone}
		}
		return outcome{waits: gone}
	}
	if r.overdue(step) {
		return outcome{impossible: fmt.Sprintf("%s was not done to %s in time", step.Do, step.Member)}
	}
	return waits("%s has to be done to %s by its operator", step.Do, step.Member)
}

// entry is what the sets say of a member.
func (r *round) entry(id coordination.MemberID) (coordination.Member, bool) {
	for _, set := range coordination.Sets() {
		if entry, is := r.view.Sets[set][id]; is {
			return entry, true
		}
	}
	return coordination.Member{}, false
}

// overdue tells whether a step has been waited for longer than the policy allows, by this operator's clock.
func (r *round) overdue(step coordination.Step) bool {
	after := r.cluster.Spec.AutomationOptions.After()
	now := r.clock.Now()
	_, _, at := r.task.plan()
	if this := fmt.Sprint(r.task.grant.Token, "/", at, step.Do, step.Member); r.since.step != this {
		r.since.step, r.since.at = this, now
	}
	return after > 0 && now.Sub(r.since.at) >= after
}
