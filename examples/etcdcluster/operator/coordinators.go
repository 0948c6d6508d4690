package operator

import (
	"context"
	"errors"
	"slices"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// moveLeader gives the leader's part to a member that stays. Who waits for a removal or a restart gets it only if it
// has had it in this plan.
func (r *round) moveLeader(ctx context.Context, step coordination.Step) (outcome, error) {
	to, known := r.find(step.Member, step.With[withPeer])
	switch {
	case known && to.ID == r.state.Leader:
		return done(), nil
	case !known || to.Learner:
		return done(), nil // planned anew: it cannot lead
	case r.leavesLater(step.Member):
		return done(), nil // planned anew: it would have to give it away again
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

// leavesLater tells whether a member is still to be disturbed.
func (r *round) leavesLater(id coordination.MemberID) bool {
	_, steps, at := r.task.plan()
	if slices.ContainsFunc(steps[:at], func(s coordination.Step) bool { return s.Member == id }) {
		return false // it has been
	}
	return slices.Contains(r.planned().Leaving, id)
}
