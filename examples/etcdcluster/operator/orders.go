package operator

import (
	"context"
	"fmt"
	"slices"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// ordered looks whether an order has been carried out. In local mode the member is this operator's own, and it
// carries it out itself.
func (r *round) ordered(ctx context.Context, step coordination.Step) (outcome, error) {
	if !r.task.global() {
		order := r.own(step)
		if r.carriedOut(order) {
			return done(), nil
		}
		if reason := r.closedToObey(order); reason != "" {
			return outcome{waits: reason}, nil
		}
		if failure, err := r.obeyOne(ctx, order); err != nil || failure != "" {
			return outcome{impossible: failure}, err
		}
		r.note("Obeyed", fmt.Sprintf("%s %s, with token %d.", step.Do, step.Member, order.Token))
		return waits("%s has to be done to %s", step.Do, step.Member), nil // the next round sees what came of it
	}
	answer := r.task.grant.Answered(r.view)
	switch {
	case answer == nil:
		return r.unanswered(step), nil
	case answer.Failure != "":
		return outcome{impossible: fmt.Sprintf("%s of %s: %s", step.Do, step.Member, answer.Failure)}, nil
	}
	return done(), nil
}

// answered tells whether an order is carried out, as far as it can be seen.
func (r *round) answered(step coordination.Step) bool {
	if !r.task.global() {
		return r.carriedOut(r.own(step))
	}
	return r.task.grant.Answered(r.view) != nil
}

// own is the order that an operator in local mode gives itself.
func (r *round) own(step coordination.Step) *coordination.Order {
	return &coordination.Order{Step: step, Intent: r.task.grant.Token, At: r.task.at, Token: r.task.grant.Token}
}

// carriedOut tells whether the agent had carried an order out when this round began to look.
func (r *round) carriedOut(order *coordination.Order) bool {
	process, there := r.processes[string(order.Member)]
	if order.Do == plan.Stop {
		return !there
	}
	return there && process.LastOrder == orderID(order)
}

// unanswered decides what becomes of an order that nobody has answered.
func (r *round) unanswered(step coordination.Step) outcome {
	if !r.stillWanted(step.Member) && step.Do == plan.Restart {
		return done() // withdrawn before it was carried out, or carried out by one that has left since
	}
	owner, late := r.owner(step), r.overdue(step)
	missing := r.cluster.Spec.AutomationOptions.Missing
	var result outcome
	switch {
	case owner == "" || r.view.Takes(owner):
		result = waits("%s has to be done to %s by its operator", step.Do, step.Member)
		if late {
			result = outcome{leaveOut: fmt.Sprintf("%s was not done to %s in time", step.Do, step.Member)}
		}
	case r.hasLeft(owner):
		result = outcome{leaveOut: fmt.Sprintf("the operator of %s takes no part any more and will not %s %s", owner, step.Do, step.Member)}
	default:
		gone := fmt.Sprintf("the operator of %s is gone and cannot %s %s", owner, step.Do, step.Member)
		result = outcome{waits: gone}
		if late || missing == etcdclusterv1alpha1.MissingLeaveOut {
			result = outcome{leaveOut: gone}
		}
	}
	if result.leaveOut != "" && step.Do == plan.Stop {
		return done() // the system does without it already, and its operator throws it away when it is back
	}
	return result
}

// owner is the prefix of who is to carry out an order. It may have another one by now.
func (r *round) owner(step coordination.Step) string {
	if entry, known := r.entry(step.Member); known {
		return entry.Prefix
	}
	return step.With[withRegion]
}

// hasLeft tells whether a region that takes no part has taken all that it had said with it, as one does that is in local mode
// by now, or will never return. Who has died leaves something behind.
func (r *round) hasLeft(prefix string) bool {
	return !slices.Contains(r.view.Left(), prefix) || slices.Contains(r.cluster.Spec.LostRegions, etcdclusterv1alpha1.Prefix(prefix))
}

// entry is what the sets say of a member.
func (r *round) entry(id coordination.MemberID) (coordination.Member, bool) {
	for _, set := range coordination.Sets() {
		if entry, is := r.wanted(set)[id]; is {
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
