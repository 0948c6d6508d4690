package operator

import (
	"context"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

var exclusion = concern{
	action: coordination.Exclusion, plan: (*round).planExclusion,
	steps: map[string]step{plan.Remove: (*round).doWithout},
}

// exclude makes the system do without members that have to go.
func (r *round) exclude(ctx context.Context) error { return r.work(ctx, exclusion) }

// planExclusion lets members go, each after the one that takes its place has come.
func (r *round) planExclusion(ready coordination.Members) []coordination.Step {
	return plan.ForReplacement(r.planned(), plan.Pairs(ready, r.wanted(coordination.ReadyForInclusion)))
}

// doWithout makes the system do without a member.
func (r *round) doWithout(ctx context.Context, step coordination.Step) (outcome, error) {
	m, known := r.find(step.Member, step.With[withPeer])
	if !known {
		return done(), nil
	}
	if reason := r.closedFor(step); reason != "" {
		return outcome{waits: reason}, nil
	}
	if err := r.system.Remove(r.under(ctx), m.ID); err != nil {
		return laterOr(err)
	}
	return waits("%s has to be forgotten by the system", step.Member), nil // the next round sees it
}
