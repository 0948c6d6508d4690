package coordination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// lead acts for all, if this participant does or may.
func (p *pass) lead(ctx context.Context) error {
	if p.c.run == nil {
		if err := p.begin(ctx); err != nil || p.c.run == nil {
			return err
		}
	}
	var err error
	if p.c.run.held() {
		p.result.HoldsLock, p.result.Intent = true, p.c.run.intent()
		p.again(busyAgain)
		err = p.goOn(ctx)
	}
	if errors.Is(err, errFenced) || p.c.run != nil && !p.c.run.held() {
		p.note("LockLost", "Lost the lock; another participant may continue the action.")
		p.c.run = nil
		p.again(atOnce)
		return nil
	}
	return ignoreConflict(err)
}

// begin continues the intent of a former holder, or begins an action that may begin.
func (p *pass) begin(ctx context.Context) error {
	if p.view.Intent != nil {
		if lock := p.view.Lock; lock != nil && lock.Session != p.c.process() && p.view.Denied[lock.Holder] == nil {
			p.wait(lock.Holder, fmt.Sprintf("it carries out the %s with token %d", p.view.Intent.Action, lock.Token))
			p.again(othersAgain)
			return nil
		}
		p.again(busyAgain)
		return p.take(func() (*lockGrant, error) { return p.c.resume(ctx) }, "Resumed",
			fmt.Sprintf("Continuing the %s of %s at step %d.", p.view.Intent.Action, p.view.Intent.Holder, p.view.Intent.StepIndex+1))
	}
	for _, action := range p.c.actions {
		for _, class := range p.classes(action) {
			verdict := p.c.judge(p.view, action, class)
			if !verdict.Open {
				p.closed(verdict)
				continue
			}
			steps, err := p.plan(ctx, Proposal{Action: action, Mode: Global, Class: class, Members: verdict.Members, View: p.view})
			if err != nil {
				return err
			}
			if len(steps) > 0 {
				return p.take(func() (*lockGrant, error) { return p.c.begin(ctx, verdict, steps) }, "Began", verdict.Summary())
			}
		}
	}
	return nil
}

// classes are those that have members pending for an action.
func (p *pass) classes(action Action) []string {
	classes := map[string]bool{}
	for id := range p.view.Pending(action) {
		classes[p.c.class(id)] = true
	}
	return sortedKeys(classes)
}

func (p *pass) plan(ctx context.Context, proposal Proposal) ([]Step, error) {
	steps, err := p.system.Plan(ctx, proposal)
	reason, err := why(err)
	if err != nil {
		return nil, fmt.Errorf("planning the %s: %w", proposal.Action, err)
	}
	if reason != "" {
		p.wait(string(proposal.Action), reason)
		return nil, nil
	}
	return steps, nil
}

// take takes the lock. If another participant holds it, take notes that and returns no error.
func (p *pass) take(lock func() (*lockGrant, error), reason, message string) error {
	grant, err := lock()
	if held, is := errors.AsType[*heldError](err); is {
		p.wait(held.Lock.Holder, fmt.Sprintf("it holds the lock with token %d", held.Lock.Token))
		return nil
	}
	if errors.Is(err, errDenied) {
		p.wait(p.c.name, err.Error())
		return nil
	}
	if err != nil {
		if errors.Is(err, kv.ErrConflict) || errors.Is(err, errNothingLeft) {
			p.again(atOnce)
			return nil
		}
		return err
	}
	p.c.run, p.c.doing = &globalRun{grant}, doing{}
	p.note(reason, fmt.Sprintf("%s (token %d)", message, grant.Token))
	return nil
}

// closed notes what an action waits for.
func (p *pass) closed(verdict *decision) {
	for _, waits := range verdict.Waits {
		p.wait(waits.For, fmt.Sprintf("%s: %s", verdict.Action, waits.Reason))
	}
	p.again(verdict.Again)
}

// doing is what the holder knows about the current step.
type doing struct {
	id       string
	since    time.Time
	executed bool
}

// goOn handles the state of the current step.
func (p *pass) goOn(ctx context.Context) error {
	p.c.run.refresh(p.view)
	intent := p.c.run.intent()
	step := intent.step()
	if step == nil {
		return p.finish(ctx, "")
	}
	if id := fmt.Sprint(intent.ID, "/", intent.StepIndex); p.c.doing.id != id {
		p.c.doing = doing{id: id, since: p.c.clock.Now()}
	}
	if done, err := p.carryOut(ctx, intent, step); err != nil || !done {
		return err
	}
	if healthy, err := p.healthy(ctx, intent, step, false); err != nil || !healthy {
		return err
	}
	return p.advance(ctx, intent)
}

// accepted counts the members of a step for which the order was accepted and not answered.
func (p *pass) accepted(step *Step) int {
	return len(slices.DeleteFunc(slices.Clone(step.Members), func(id MemberID) bool { return !p.view.Accepted(id) }))
}

// healthy tells whether the action may go on after the present step, and ends it if it never may. Fenced is set when the system
// refuses whatever was accepted of the step.
func (p *pass) healthy(ctx context.Context, intent *Intent, step *Step, fenced bool) (bool, error) {
	err := p.system.Healthy(ctx, *step)
	if failed, is := errors.AsType[*failedError](err); is {
		return false, p.end(ctx, fmt.Sprintf("%s failed: %s", step, failed.reason), fenced)
	}
	reason, err := why(err)
	if err != nil || reason == "" {
		return err == nil, err
	}
	p.wait(step.String(), reason)
	if needed := p.neededInstead(intent, step); needed != "" {
		return false, p.end(ctx, fmt.Sprintf("%s (%s)", needed, reason), fenced)
	}
	return false, nil
}

// advance continues with the remaining steps.
func (p *pass) advance(ctx context.Context, intent *Intent) error {
	done := *intent
	done.StepIndex++
	rest, planned, err := p.replan(ctx, &done)
	if err != nil || !planned {
		return err
	}
	p.again(atOnce)
	if len(rest) == 0 {
		return p.finish(ctx, "")
	}
	return p.c.run.advance(ctx, rest)
}

// replan returns the steps that are left, and whether the action may go on with them. When they cannot be done it is given up.
func (p *pass) replan(ctx context.Context, intent *Intent) (rest []Step, planned bool, err error) {
	again, is := p.system.(Replanner)
	if !is {
		return intent.Steps[intent.StepIndex:], true, nil
	}
	rest, err = again.Replan(ctx, intent)
	if failed, is := errors.AsType[*failedError](err); is {
		return nil, false, p.finish(ctx, failed.reason)
	}
	reason, err := why(err)
	if err != nil {
		return nil, false, fmt.Errorf("planning the rest of the %s: %w", intent.Action, err)
	}
	p.waitIf(string(intent.Action), reason)
	return rest, reason == "", nil
}

// carryOut tells whether the present step is done.
func (p *pass) carryOut(ctx context.Context, intent *Intent, step *Step) (bool, error) {
	if step.Order && p.c.run.global() {
		return p.await(ctx, intent, step)
	}
	if p.c.doing.executed {
		return true, nil
	}
	under, cancel := p.c.run.under(ctx)
	defer cancel()
	err := p.system.Execute(under, Task{Step: *step, ID: p.c.taskID(intent.ID, intent.StepIndex), Token: intent.Token})
	if failed, is := errors.AsType[*failedError](err); is {
		return false, p.failed(ctx, intent, map[MemberID]string{step.Member(): failed.reason})
	}
	if fenced, is := errors.AsType[*fencedError](err); is {
		if fenced.seen < intent.Token {
			return false, fenced.unexplained(*step, intent.Token)
		}
		p.again(atOnce)
		return false, p.c.run.raise(ctx, fenced.seen)
	}
	if reason, err := why(err); err != nil || reason != "" {
		p.waitIf(step.String(), reason)
		return false, err
	}
	p.c.doing.executed = true
	return true, nil
}

// await looks at what the participants say of an order.
func (p *pass) await(ctx context.Context, intent *Intent, step *Step) (bool, error) {
	open, failures, accepted, fenced := []MemberID(nil), map[MemberID]string{}, 0, int64(0)
	for _, id := range step.Members {
		answer := p.view.Answers[id]
		switch {
		case !answer.isOf(intent):
			open = append(open, id)
		case answer.Fenced >= intent.Token:
			fenced = max(fenced, answer.Fenced)
		case answer.Fenced > 0: // it has to be accepted again, under the newer token
			open = append(open, id)
		case answer.Failure != "":
			failures[id] = answer.Failure
		case !answer.Done:
			accepted++
		}
	}
	switch {
	case fenced > 0:
		p.again(atOnce)
		return false, p.c.run.raise(ctx, fenced)
	case len(open) > 0:
		return false, p.missing(ctx, intent, step, open)
	case step.Together && !intent.AllAccepted:
		p.again(atOnce)
		return false, p.c.run.start(ctx, p.view)
	case accepted > 0:
		return false, p.late(ctx, intent, step)
	case len(failures) > 0:
		return false, p.failed(ctx, intent, failures)
	}
	return true, nil
}

// missing handles members whose participants have not accepted the order.
func (p *pass) missing(ctx context.Context, intent *Intent, step *Step, open []MemberID) error {
	policies, calm := p.view.policies(intent.Action), p.c.clock.Now().Sub(p.c.doing.since)
	for _, id := range open {
		owner := p.view.Owner(id)
		gone := !p.view.Present(owner)
		out, _ := policies.leaveOut(gone, calm)
		reason := fmt.Sprintf("%s has to accept the order to %s", owner, step)
		if gone {
			reason = fmt.Sprintf("no process of %s is alive to %s", owner, step)
		}
		if p.withdrawn(intent, id) || gone && !p.view.knows(owner) {
			reason, out = "its participant has withdrawn the need", true
		}
		if out {
			if p.view.Answers[id].isOf(intent) { // refused under an older token, maybe after it had begun
				if healthy, err := p.healthy(ctx, intent, step, false); err != nil || !healthy {
					return err
				}
			}
			return p.skip(ctx, intent, step, id, reason, false)
		}
		p.wait(string(id), reason)
	}
	return nil
}

// withdrawn tells whether a member had asked for what is being done, and does not ask any more. A step can be about members for
// which nobody asks for the action, such as those that take the place of others.
func (p *pass) withdrawn(intent *Intent, id MemberID) bool {
	pending, _ := intent.Action.Sets()
	_, asked := intent.Members[id]
	_, wanted := p.view.Sets[pending][id]
	return asked && !wanted
}

// late decides what becomes of an order that was accepted and is not answered: the action goes on without it only if the system
// itself refuses whatever still comes of it.
func (p *pass) late(ctx context.Context, intent *Intent, step *Step) error {
	fencer, can := p.system.(Fencer)
	policies, calm := p.view.policies(intent.Action), p.c.clock.Now().Sub(p.c.doing.since)
	var late []MemberID
	raised, waits := true, false
	for _, id := range step.Members {
		if !p.view.Accepted(id) {
			continue
		}
		answer := p.view.Answers[id]
		if out, _ := policies.leaveOut(!p.view.alive(answer.Session), calm); out && can {
			late, raised = append(late, id), raised && answer.Token < intent.Token
			continue
		}
		waits = true
		p.wait(string(id), fmt.Sprintf("%s has accepted the order to %s, and has not answered", p.view.Owner(id), step))
	}
	if len(late) == 0 || step.Together && waits {
		return nil // what is done together ends only when nobody may be carrying it out
	}
	if !step.Together {
		late = late[:1]
	}
	if !raised { // once is enough, also if it takes several attempts to fence
		if err := p.c.run.raise(ctx, 0); err != nil {
			return err
		}
	}
	under, cancel := p.c.run.under(ctx)
	defer cancel()
	reason, err := why(fencer.Fence(under, late, p.c.run.intent().Token))
	if err != nil {
		return fmt.Errorf("fencing %s: %w", joined(late), err)
	}
	if reason != "" {
		p.wait("fencing "+joined(late), reason)
		return nil
	}
	if healthy, err := p.healthy(ctx, p.c.run.intent(), step, len(late) == p.accepted(step)); err != nil || !healthy {
		return err // what was accepted may have disturbed the system
	}
	return p.skip(ctx, p.c.run.intent(), step, late[0], "it was accepted, not answered in time, and fenced", true)
}

// failed handles a step that has failed for members.
func (p *pass) failed(ctx context.Context, intent *Intent, failures map[MemberID]string) error {
	step, id := intent.step(), slices.Min(slices.Collect(maps.Keys(failures)))
	reason := fmt.Sprintf("%s failed: %s", step, failures[id])
	if !p.c.run.global() || !step.Order || step.Together || !p.view.policies(intent.Action).goesOn() {
		return p.finish(ctx, reason)
	}
	if healthy, err := p.healthy(ctx, intent, step, false); err != nil || !healthy {
		return err // what has failed may have disturbed the system
	}
	return p.skip(ctx, intent, step, id, reason, false) // the next call looks at other failures
}

// skip continues without a member. A step with Together is given up instead: it needs all members.
func (p *pass) skip(ctx context.Context, intent *Intent, step *Step, id MemberID, reason string, fenced bool) error {
	if step.Together || len(intent.Members) <= 1 {
		return p.end(ctx, fmt.Sprintf("%s: %s", id, reason), fenced)
	}
	rest, planned, err := p.restWithout(ctx, intent, step, id, reason)
	if err != nil || !planned {
		return err
	}
	p.again(atOnce)
	if err := p.c.run.skip(ctx, p.view, reason, id, fenced, rest); err != nil {
		return err
	}
	p.note("LeftOut", fmt.Sprintf("Continuing without %s: %s", id, reason))
	return nil
}

// restWithout returns the steps that are left without a member, and whether the action may go on with them. While the present step
// is done to others, it is not planned again: that is for what follows a step.
func (p *pass) restWithout(ctx context.Context, intent *Intent, step *Step, id MemberID, reason string) (rest []Step, planned bool, err error) {
	left := *intent
	left.StepIndex++
	left.LeftOut = maps.Clone(left.LeftOut)
	if left.LeftOut == nil {
		left.LeftOut = map[MemberID]string{}
	}
	left.LeftOut[id] = reason
	rest = withoutMember(intent.Steps[left.StepIndex:], id)
	if len(step.without(id).Members) > 0 {
		return rest, true, nil
	}
	left.Steps = slices.Concat(intent.Steps[:left.StepIndex], rest)
	return p.replan(ctx, &left)
}

// neededInstead returns a reason if a member of a step now needs another action, which has to come first. In local mode the store has
// no needs, so it uses the current needs of this participant.
func (p *pass) neededInstead(intent *Intent, step *Step) string {
	now := p.view.needed()
	if !p.c.run.global() {
		now = p.needs
	}
	for _, id := range step.Members {
		for _, action := range sortedKeys(now[id]) {
			// An entry that was there is a newer one after its participant has changed its prefix.
			later := now[id][action] > intent.DecidedAt && (intent.DecidedAt > 0 || !p.c.run.global())
			if action != intent.Action && later && !slices.Contains(intent.OtherNeeds[id], action) {
				return fmt.Sprintf("%s needs %s first", id, action)
			}
		}
	}
	return ""
}

// finish ends the intent, with the reason if it is given up.
func (p *pass) finish(ctx context.Context, failure string) error { return p.end(ctx, failure, false) }

func (p *pass) end(ctx context.Context, failure string, fenced bool) error {
	intent := p.c.run.intent()
	if err := p.c.run.end(ctx, failure, fenced); err != nil {
		if errors.Is(err, ErrAccepted) {
			p.wait(intent.step().String(), err.Error())
			return nil
		}
		return err
	}
	if failure == "" {
		p.note("Done", fmt.Sprintf("%s is done, %d steps.", intent.Action, len(intent.Steps)))
	} else {
		p.note("GaveUp", fmt.Sprintf("%s was given up: %s", intent.Action, failure))
	}
	p.c.run = nil
	p.again(atOnce)
	return nil
}
