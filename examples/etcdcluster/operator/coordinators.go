package operator

import (
	"context"
	"errors"
	"slices"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// Nothing begins with a choice of the leader: it is made for what is done to the one that leads.
var coordinators = concern{steps: map[string]step{plan.MoveLeader: (*round).moveLeader}}

// changeCoordinators gives the leader's part away, before who has it is disturbed.
func (r *round) changeCoordinators(ctx context.Context) error { return r.work(ctx, coordinators) }

// moveLeader gives the leader's part to the member of a step, if that is still the one to get it.
func (r *round) moveLeader(ctx context.Context, step coordination.Step) (outcome, error) {
	_, steps, at := r.task.plan()
	now := plan.Again(r.planned(), steps, at-1, r.stillWanted)
	if len(now) == 0 || now[0].Do != plan.MoveLeader {
		return done(), nil // who leads by now need not give it away
	}
	to, known := r.find(step.Member, step.With[withPeer])
	fit := known && !to.Learner && to.Healthy() && !r.leavesLater(step.Member)
	if !fit && now[0].Member != step.Member {
		return done(), nil // planned anew: there is a better one
	}
	if !known || to.Learner {
		return waits("%s does not vote and cannot lead", step.Member), nil
	}
	if reason := r.closedFor(step); reason != "" {
		return outcome{waits: reason}, nil
	}
	err := r.system.MoveLeader(r.under(ctx), r.state.Leader, to.ID)
	if errors.Is(err, system.ErrOtherLeader) {
		return done(), nil // planned anew
	}
	if err != nil {
		return laterOr(err)
	}
	return waits("%s has to lead", step.Member), nil
}

// leavesLater tells whether a member is still to be disturbed, by this plan or by another one.
func (r *round) leavesLater(id coordination.MemberID) bool {
	_, steps, at := r.task.plan()
	disturbs := func(s coordination.Step) bool { return s.Member == id && (s.Do == plan.Restart || s.Do == plan.Remove) }
	switch {
	case slices.ContainsFunc(steps[at:], disturbs):
		return true
	case slices.ContainsFunc(steps[:at], func(s coordination.Step) bool { return s.Member == id }):
		return false // it has been
	}
	return slices.Contains(r.planned().Leaving, id)
}
