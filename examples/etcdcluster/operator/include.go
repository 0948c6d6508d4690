package operator

import (
	"context"
	"fmt"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

var inclusion = concern{
	action: coordination.Inclusion, plan: (*round).planInclusion,
	steps: map[string]step{
		plan.AddLearner: (*round).addLearner, plan.Start: (*round).ordered, plan.Promote: (*round).promote,
	},
}

// include lets members come: as learners first, and with a vote when they have the data.
func (r *round) include(ctx context.Context) error { return r.work(ctx, inclusion) }

// planInclusion lets members come. Those that take the place of others come with them.
func (r *round) planInclusion(ready coordination.Members) []coordination.Step {
	if len(r.wanted(coordination.PendingForExclusion)) > 0 {
		return nil
	}
	return plan.ForReplacement(r.planned(), plan.Pairs(nil, ready))
}

// addLearner makes the system expect a member.
func (r *round) addLearner(ctx context.Context, step coordination.Step) (outcome, error) {
	if _, known := r.find(step.Member, step.With[withPeer]); known {
		return done(), nil
	}
	if step.With[withPeer] == "" {
		return outcome{impossible: fmt.Sprintf("nobody has said where %s is", step.Member)}, nil
	}
	if reason := r.closedFor(step); reason != "" {
		return outcome{waits: reason}, nil
	}
	if _, err := r.system.AddLearner(r.under(ctx), step.With[withPeer]); err != nil {
		return laterOr(err)
	}
	return waits("%s has to be known to the system", step.Member), nil // the next round sees it
}

// promote gives a member that has the data its vote. One that cannot start with what it was given is restarted as soon as
// it has been given something else.
func (r *round) promote(ctx context.Context, step coordination.Step) (outcome, error) {
	m, known := r.find(step.Member, step.With[withPeer])
	switch {
	case !known:
		return outcome{impossible: fmt.Sprintf("the system does not know %s any more", step.Member)}, nil
	case !m.Learner && m.Healthy():
		return done(), nil
	case !m.Learner:
		return waits("%s is not well yet: %s", step.Member, m.Health.Problem), nil
	case !m.Healthy() && r.wantedAgain(step.Member):
		return r.instead(coordination.Step{Do: plan.Restart, Member: step.Member, Order: true}, step), nil
	case !m.Healthy() && r.overdue(step): // not one that is still getting the data
		return outcome{impossible: fmt.Sprintf("%s is not well in time: %s", step.Member, m.Health.Problem)}, nil
	}
	if err := r.system.Promote(r.under(ctx), m.ID); err != nil {
		return laterOr(err)
	}
	return waits("%s has to have its vote", step.Member), nil
}

// dropLearner makes the system forget a member that was to come with what is given up: nobody else can come while it is
// expected.
func (r *round) dropLearner(ctx context.Context) (outcome, error) {
	_, steps, at := r.task.plan()
	for _, step := range steps[:min(at+1, len(steps))] {
		m, known := r.find(step.Member, step.With[withPeer])
		if step.Do != plan.AddLearner || !known || !m.Learner {
			continue
		}
		if err := r.system.Remove(r.under(ctx), m.ID); err != nil {
			return laterOr(err)
		}
	}
	return done(), nil
}
