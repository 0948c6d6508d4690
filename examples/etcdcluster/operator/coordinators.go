package operator

import (
	"context"
	"errors"

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
	// Another member may lead by now, or this one may be sick, or wait for something itself.
	now := plan.Again(r.planned(), steps, at-1, r.stillWanted)
	to, known := r.find(step.Member, step.With[withPeer])
	if !known || to.Learner || len(now) == 0 || now[0].Do != plan.MoveLeader || now[0].Member != step.Member {
		return done(), nil // planned anew
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
