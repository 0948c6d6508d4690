package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

var restarting = concern{
	action: coordination.Restart, plan: (*round).planRestart,
	steps: map[string]step{plan.Restart: (*round).restartOne},
}

// restart gives members other arguments.
func (r *round) restart(ctx context.Context) error { return r.work(ctx, restarting) }

// planRestart restarts members, the leader last.
func (r *round) planRestart(ready coordination.Members) []coordination.Step {
	return plan.ForRestart(r.planned(), slices.Collect(maps.Keys(ready)))
}

// restartOne lets a member be restarted, and waits until it is well again.
func (r *round) restartOne(ctx context.Context, step coordination.Step) (outcome, error) {
	if r.leads(step) != "" && !r.answered(step) {
		_, steps, at := r.task.plan()
		return outcome{rest: plan.Again(r.planned(), steps, at-1, r.stillWanted), replaced: true}, nil // it was not to lead
	}
	result, err := r.ordered(ctx, step)
	if err != nil || !result.done {
		return result, err
	}
	return r.restarted(step), nil
}

// restarted tells whether a member that was restarted is well again. One that cannot start with what it was given is
// restarted again as soon as it has been given something else.
func (r *round) restarted(step coordination.Step) outcome {
	m, known := r.find(step.Member, step.With[withPeer])
	problem := ""
	if known {
		problem = unwell(m)
	}
	switch {
	case problem == "":
		return done()
	case r.wantedAgain(step.Member):
		return r.instead(coordination.Step{Do: plan.Restart, Member: step.Member, Order: true})
	case r.overdue(step):
		return outcome{impossible: fmt.Sprintf("%s is not well again in time: %s", step.Member, problem)}
	}
	return waits("%s is not well again yet: %s", step.Member, problem)
}

// wantedAgain tells whether a member that was started has been given other arguments since.
func (r *round) wantedAgain(id coordination.MemberID) bool {
	if _, ready := r.wanted(coordination.ReadyForRestart)[id]; !ready {
		return false
	}
	if !r.task.global() {
		return true
	}
	// What had asked for it may not be withdrawn yet.
	return r.view.Sets[coordination.PendingForRestart][id].Version > r.task.grant.Intent().Members[id]
}
