package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// later tries a step again that the system does not take now, and returns what else went wrong.
func laterOr(err error) (outcome, error) {
	for _, passing := range []error{system.ErrNotInSync, system.ErrNotNow, system.ErrNoLeader, system.ErrUnreachable, context.DeadlineExceeded} {
		if errors.Is(err, passing) {
			return waits("%v", err), nil
		}
	}
	return outcome{}, err
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

// promote gives a member that has the data its vote.
func (r *round) promote(ctx context.Context, step coordination.Step) (outcome, error) {
	m, known := r.find(step.Member, step.With[withPeer])
	switch {
	case !known:
		return outcome{impossible: fmt.Sprintf("the system does not know %s any more", step.Member)}, nil
	case !m.Learner && m.Healthy():
		return done(), nil
	case !m.Learner:
		return waits("%s is not well yet: %s", step.Member, m.Health.Problem), nil
	}
	if err := r.system.Promote(r.under(ctx), m.ID); err != nil {
		return laterOr(err)
	}
	return waits("%s has to have its vote", step.Member), nil
}

// remove makes the system do without a member.
func (r *round) remove(ctx context.Context, step coordination.Step) (outcome, error) {
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
	return waits("%s has to be forgotten by the system", step.Member), nil
}

// under ends what is done to the system when the lock is lost.
func (r *round) under(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(r.task.grant.Context(), func() { cancel(coordination.ErrFenced) })
	return ctx
}
