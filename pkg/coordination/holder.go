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

// runAsHolder continues the current run, or begins one if this participant may.
func (p *pass) runAsHolder(ctx context.Context) error {
	if p.c.currentRun == nil {
		if err := p.beginAction(ctx); err != nil || p.c.currentRun == nil {
			return err
		}
	}
	var err error
	if p.c.currentRun.holdsLock() {
		p.result.HoldsLock, p.result.Intent = true, p.c.currentRun.intent()
		p.requeueAfter(busyInterval)
		err = p.continueRun(ctx)
	}
	if errors.Is(err, errFenced) || p.c.currentRun != nil && !p.c.currentRun.holdsLock() {
		p.addEvent("LockLost", "Lost the lock; another participant may continue the action.")
		p.c.currentRun = nil
		p.requeueAfter(immediately)
		return nil
	}
	return ignoreConflict(err)
}

// beginAction continues the intent of a former holder, or begins an action whose barrier is open.
func (p *pass) beginAction(ctx context.Context) error {
	if p.view.Intent != nil {
		if lock := p.view.Lock; lock != nil && lock.Session != p.c.sessionID() && p.view.Denied[lock.Holder] == nil {
			p.addWaitReason(lock.Holder, fmt.Sprintf("it carries out the %s with token %d", p.view.Intent.Action, lock.Token))
			p.requeueAfter(waitInterval)
			return nil
		}
		p.requeueAfter(busyInterval)
		return p.takeLock(func() (*lockGrant, error) { return p.c.resume(ctx) }, "Resumed",
			fmt.Sprintf("Continuing the %s of %s at step %d.", p.view.Intent.Action, p.view.Intent.Holder, p.view.Intent.StepIndex+1))
	}
	for _, action := range p.c.actions {
		for _, class := range p.pendingClasses(action) {
			verdict := p.c.decide(p.view, action, class)
			if !verdict.Open {
				p.addWaitReasonsOf(verdict)
				continue
			}
			steps, err := p.plan(ctx, Proposal{Action: action, Mode: Global, Class: class, Members: verdict.Members, View: p.view})
			if err != nil {
				return err
			}
			if len(steps) > 0 {
				return p.takeLock(func() (*lockGrant, error) { return p.c.begin(ctx, verdict, steps) }, "Began", verdict.Summary())
			}
		}
	}
	return nil
}

// pendingClasses returns the classes with members that need an action.
func (p *pass) pendingClasses(action Action) []string {
	classes := map[string]bool{}
	for id := range p.view.Pending(action) {
		classes[p.c.class(id)] = true
	}
	return sortedKeys(classes)
}

func (p *pass) plan(ctx context.Context, proposal Proposal) ([]Step, error) {
	steps, err := p.system.Plan(ctx, proposal)
	reason, err := notYetReason(err)
	if err != nil {
		return nil, fmt.Errorf("planning the %s: %w", proposal.Action, err)
	}
	if reason != "" {
		p.addWaitReason(string(proposal.Action), reason)
		return nil, nil
	}
	return steps, nil
}

// takeLock takes the lock for a run. If another participant holds it, takeLock adds a wait reason and returns no error.
func (p *pass) takeLock(lock func() (*lockGrant, error), reason, message string) error {
	grant, err := lock()
	if held, ok := errors.AsType[*heldError](err); ok {
		p.addWaitReason(held.Lock.Holder, fmt.Sprintf("it holds the lock with token %d", held.Lock.Token))
		return nil
	}
	if errors.Is(err, errDenied) {
		p.addWaitReason(p.c.name, err.Error())
		return nil
	}
	if err != nil {
		if errors.Is(err, kv.ErrConflict) || errors.Is(err, errNothingToResume) {
			p.requeueAfter(immediately)
			return nil
		}
		return err
	}
	p.c.currentRun, p.c.stepState = &globalRun{grant}, stepState{}
	p.addEvent(reason, fmt.Sprintf("%s (token %d)", message, grant.Token))
	return nil
}

// addWaitReasonsOf adds the reasons why an action may not begin.
func (p *pass) addWaitReasonsOf(verdict *decision) {
	for _, reason := range verdict.Waits {
		p.addWaitReason(reason.For, fmt.Sprintf("%s: %s", verdict.Action, reason.Reason))
	}
	p.requeueAfter(verdict.RetryAfter)
}

// stepState is the holder's state of the current step.
type stepState struct {
	id       string
	since    time.Time
	executed bool
}

// continueRun advances the run as far as possible now.
func (p *pass) continueRun(ctx context.Context) error {
	p.c.currentRun.refresh(p.view)
	intent := p.c.currentRun.intent()
	step := intent.step()
	if step == nil {
		return p.finish(ctx, "")
	}
	if id := fmt.Sprint(intent.ID, "/", intent.StepIndex); p.c.stepState.id != id {
		p.c.stepState = stepState{id: id, since: p.c.clock.Now()}
	}
	if done, err := p.carryOutStep(ctx, intent, step); err != nil || !done {
		return err
	}
	if healthy, err := p.healthy(ctx, intent, step, false); err != nil || !healthy {
		return err
	}
	return p.advance(ctx, intent)
}

// countAccepted returns the number of members of a step whose order was accepted and not answered.
func (p *pass) countAccepted(step *Step) int {
	return len(slices.DeleteFunc(slices.Clone(step.Members), func(id MemberID) bool { return !p.view.Accepted(id) }))
}

// healthy reports whether the action may continue after the current step, and ends the action if it never can. Fenced is set when
// the system refuses all accepted orders of the step.
func (p *pass) healthy(ctx context.Context, intent *Intent, step *Step, fenced bool) (bool, error) {
	err := p.system.Healthy(ctx, *step)
	if failed, ok := errors.AsType[*failedError](err); ok {
		return false, p.endRun(ctx, fmt.Sprintf("%s failed: %s", step, failed.reason), fenced)
	}
	reason, err := notYetReason(err)
	if err != nil || reason == "" {
		return err == nil, err
	}
	p.addWaitReason(step.String(), reason)
	if needed := p.newNeed(intent, step); needed != "" {
		return false, p.endRun(ctx, fmt.Sprintf("%s (%s)", needed, reason), fenced)
	}
	return false, nil
}

// advance ends the current step and continues with the remaining steps.
func (p *pass) advance(ctx context.Context, intent *Intent) error {
	done := *intent
	done.StepIndex++
	rest, planned, err := p.replan(ctx, &done)
	if err != nil || !planned {
		return err
	}
	p.requeueAfter(immediately)
	if len(rest) == 0 {
		return p.finish(ctx, "")
	}
	return p.c.currentRun.advance(ctx, rest)
}

// replan returns the remaining steps, and whether the action may continue with them now. If Replan fails, the action is given up.
func (p *pass) replan(ctx context.Context, intent *Intent) (rest []Step, planned bool, err error) {
	replanner, ok := p.system.(Replanner)
	if !ok {
		return intent.Steps[intent.StepIndex:], true, nil
	}
	rest, err = replanner.Replan(ctx, intent)
	if failed, ok := errors.AsType[*failedError](err); ok {
		return nil, false, p.finish(ctx, failed.reason)
	}
	reason, err := notYetReason(err)
	if err != nil {
		return nil, false, fmt.Errorf("planning the rest of the %s: %w", intent.Action, err)
	}
	p.addWaitReasonIf(string(intent.Action), reason)
	return rest, reason == "", nil
}

// carryOutStep carries out the current step. It reports whether the step is done.
func (p *pass) carryOutStep(ctx context.Context, intent *Intent, step *Step) (bool, error) {
	if step.Order && p.c.currentRun.isGlobal() {
		return p.awaitAnswers(ctx, intent, step)
	}
	if p.c.stepState.executed {
		return true, nil
	}
	lockCtx, cancel := p.c.currentRun.withLock(ctx)
	defer cancel()
	err := p.system.Execute(lockCtx, Task{Step: *step, ID: p.c.taskID(intent.ID, intent.StepIndex), Token: intent.Token})
	if failed, ok := errors.AsType[*failedError](err); ok {
		return false, p.handleFailure(ctx, intent, map[MemberID]string{step.Member(): failed.reason})
	}
	if fenced, ok := errors.AsType[*fencedError](err); ok {
		if fenced.seen < intent.Token {
			return false, fenced.contradiction(*step, intent.Token)
		}
		p.requeueAfter(immediately)
		return false, p.c.currentRun.raiseToken(ctx, fenced.seen)
	}
	if reason, err := notYetReason(err); err != nil || reason != "" {
		p.addWaitReasonIf(step.String(), reason)
		return false, err
	}
	p.c.stepState.executed = true
	return true, nil
}

// awaitAnswers handles the answers to an order. It reports whether all participants have carried it out.
func (p *pass) awaitAnswers(ctx context.Context, intent *Intent, step *Step) (bool, error) {
	open, failures, accepted, fenced := []MemberID(nil), map[MemberID]string{}, 0, int64(0)
	for _, id := range step.Members {
		answer := p.view.Answers[id]
		switch {
		case !answer.isFor(intent):
			open = append(open, id)
		case answer.Fenced >= intent.Token:
			fenced = max(fenced, answer.Fenced)
		case answer.Fenced > 0: // it has to be accepted again under the newer token
			open = append(open, id)
		case answer.Failure != "":
			failures[id] = answer.Failure
		case !answer.Done:
			accepted++
		}
	}
	switch {
	case fenced > 0:
		p.requeueAfter(immediately)
		return false, p.c.currentRun.raiseToken(ctx, fenced)
	case len(open) > 0:
		return false, p.handleMissing(ctx, intent, step, open)
	case step.Together && !intent.AllAccepted:
		p.requeueAfter(immediately)
		return false, p.c.currentRun.startTogether(ctx, p.view)
	case accepted > 0:
		return false, p.handleLate(ctx, intent, step)
	case len(failures) > 0:
		return false, p.handleFailure(ctx, intent, failures)
	}
	return true, nil
}

// handleMissing handles the members whose participants have not accepted the order.
func (p *pass) handleMissing(ctx context.Context, intent *Intent, step *Step, open []MemberID) error {
	policies, unchangedFor := p.view.policies(intent.Action), p.c.clock.Now().Sub(p.c.stepState.since)
	for _, id := range open {
		owner := p.view.Owner(id)
		dead := !p.view.Present(owner)
		leaveOut, _ := policies.leaveOut(dead, unchangedFor)
		reason := fmt.Sprintf("%s has to accept the order to %s", owner, step)
		if dead {
			reason = fmt.Sprintf("no process of %s is alive to %s", owner, step)
		}
		if p.isNeedWithdrawn(intent, id) || dead && !p.view.hasJoined(owner) {
			reason, leaveOut = "its participant has withdrawn the need", true
		}
		if leaveOut {
			if p.view.Answers[id].isFor(intent) { // refused under an older token, possibly after it had begun
				if healthy, err := p.healthy(ctx, intent, step, false); err != nil || !healthy {
					return err
				}
			}
			return p.skipMember(ctx, intent, step, id, reason, false)
		}
		p.addWaitReason(string(id), reason)
	}
	return nil
}

// isNeedWithdrawn reports whether a member needed the action when it began and does not need it now. A step can also include members
// that never needed the action, such as replacements of other members.
func (p *pass) isNeedWithdrawn(intent *Intent, id MemberID) bool {
	pending, _ := intent.Action.Sets()
	_, included := intent.Members[id]
	_, wanted := p.view.Sets[pending][id]
	return included && !wanted
}

// handleLate handles an order that was accepted and is not answered. The action continues without the member only if the system itself
// refuses the old token.
func (p *pass) handleLate(ctx context.Context, intent *Intent, step *Step) error {
	fencer, canFence := p.system.(Fencer)
	policies, unchangedFor := p.view.policies(intent.Action), p.c.clock.Now().Sub(p.c.stepState.since)
	var late []MemberID
	raised, waiting := true, false
	for _, id := range step.Members {
		if !p.view.Accepted(id) {
			continue
		}
		answer := p.view.Answers[id]
		if leaveOut, _ := policies.leaveOut(!p.view.isSessionAlive(answer.Session), unchangedFor); leaveOut && canFence {
			late, raised = append(late, id), raised && answer.Token < intent.Token
			continue
		}
		waiting = true
		p.addWaitReason(string(id), fmt.Sprintf("%s has accepted the order to %s, and has not answered", p.view.Owner(id), step))
	}
	if len(late) == 0 || step.Together && waiting {
		return nil // a step with Together ends only when no participant may be carrying it out
	}
	if !step.Together {
		late = late[:1]
	}
	if !raised { // once is enough, even if fencing takes several attempts
		if err := p.c.currentRun.raiseToken(ctx, 0); err != nil {
			return err
		}
	}
	lockCtx, cancel := p.c.currentRun.withLock(ctx)
	defer cancel()
	reason, err := notYetReason(fencer.Fence(lockCtx, late, p.c.currentRun.intent().Token))
	if err != nil {
		return fmt.Errorf("fencing %s: %w", joinMembers(late), err)
	}
	if reason != "" {
		p.addWaitReason("fencing "+joinMembers(late), reason)
		return nil
	}
	if healthy, err := p.healthy(ctx, p.c.currentRun.intent(), step, len(late) == p.countAccepted(step)); err != nil || !healthy {
		return err // the accepted order may have disturbed the system
	}
	return p.skipMember(ctx, p.c.currentRun.intent(), step, late[0], "it was accepted, not answered in time, and fenced", true)
}

// handleFailure handles a step that has failed for some members.
func (p *pass) handleFailure(ctx context.Context, intent *Intent, failures map[MemberID]string) error {
	step, id := intent.step(), slices.Min(slices.Collect(maps.Keys(failures)))
	reason := fmt.Sprintf("%s failed: %s", step, failures[id])
	if !p.c.currentRun.isGlobal() || !step.Order || step.Together || !p.view.policies(intent.Action).continueAfterFailure() {
		return p.finish(ctx, reason)
	}
	if healthy, err := p.healthy(ctx, intent, step, false); err != nil || !healthy {
		return err // the failed step may have disturbed the system
	}
	return p.skipMember(ctx, intent, step, id, reason, false) // the next call handles other failures
}

// skipMember continues without a member. An action is given up instead if its step has Together, which needs all members.
func (p *pass) skipMember(ctx context.Context, intent *Intent, step *Step, id MemberID, reason string, fenced bool) error {
	if step.Together || len(intent.Members) <= 1 {
		return p.endRun(ctx, fmt.Sprintf("%s: %s", id, reason), fenced)
	}
	rest, planned, err := p.remainingWithout(ctx, intent, step, id, reason)
	if err != nil || !planned {
		return err
	}
	p.requeueAfter(immediately)
	if err := p.c.currentRun.skipMember(ctx, p.view, reason, id, fenced, rest); err != nil {
		return err
	}
	p.addEvent("LeftOut", fmt.Sprintf("Continuing without %s: %s", id, reason))
	return nil
}

// remainingWithout returns the remaining steps without a member, and whether the action may continue with them. It plans again only if
// the current step has no other members, because Replan follows a completed step.
func (p *pass) remainingWithout(ctx context.Context, intent *Intent, step *Step, id MemberID, reason string) (rest []Step, planned bool, err error) {
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

// newNeed returns a reason if a member of a step now needs another action, which has to come first. In local mode it uses the current
// needs of this participant, because the store has none.
func (p *pass) newNeed(intent *Intent, step *Step) string {
	now := p.view.needed()
	if !p.c.currentRun.isGlobal() {
		now = p.needs
	}
	for _, id := range step.Members {
		for _, action := range sortedKeys(now[id]) {
			// A change of the prefix writes entries again, so that their versions are newer.
			later := now[id][action] > intent.DecidedAt && (intent.DecidedAt > 0 || !p.c.currentRun.isGlobal())
			if action != intent.Action && later && !slices.Contains(intent.OtherNeeds[id], action) {
				return fmt.Sprintf("%s needs %s first", id, action)
			}
		}
	}
	return ""
}

// finish ends the run. If a failure is given, the action was given up.
func (p *pass) finish(ctx context.Context, failure string) error {
	return p.endRun(ctx, failure, false)
}

func (p *pass) endRun(ctx context.Context, failure string, fenced bool) error {
	intent := p.c.currentRun.intent()
	if err := p.c.currentRun.finish(ctx, failure, fenced); err != nil {
		if errors.Is(err, ErrAccepted) {
			p.addWaitReason(intent.step().String(), err.Error())
			return nil
		}
		return err
	}
	if failure == "" {
		p.addEvent("Done", fmt.Sprintf("%s is done, %d steps.", intent.Action, len(intent.Steps)))
	} else {
		p.addEvent("GaveUp", fmt.Sprintf("%s was given up: %s", intent.Action, failure))
	}
	p.c.currentRun = nil
	p.requeueAfter(immediately)
	return nil
}
