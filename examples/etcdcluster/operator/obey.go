package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// obey carries out what the operator that acts wants done to one of this region's members, and says so.
func (r *round) obey(ctx context.Context) error {
	if !r.global() || r.c == nil {
		return nil
	}
	order := r.c.Order(r.view, r.answersFor()...)
	if order == nil {
		return nil
	}
	r.lookIn(soon)
	failure, carried := "", r.carriedOut(order) // by one that died before it could say so
	if !carried {
		if reason := r.closedToObey(order); reason != "" {
			r.wait(fmt.Sprintf("the order to %s %s waits: %s", order.Do, order.Member, reason), soon)
			return nil
		}
		if carried = r.wants(order); carried {
			var err error
			if failure, err = r.obeyOne(ctx, order); err != nil {
				return err
			}
		}
	}
	err := r.c.Answer(ctx, order, failure)
	switch {
	case errors.Is(err, coordination.ErrConflict):
		return nil // another one has gone on with it meanwhile, and asks again if it has to
	case err != nil:
		return inStore(err)
	}
	if carried && failure == "" {
		r.note("Obeyed", fmt.Sprintf("%s %s, as ordered with token %d.", order.Do, order.Member, order.Token))
	}
	return nil
}

// answersFor are the members whose orders are for this operator: the region's own, and one that it was to stop and that is
// not there any more, because the operator died before it could say so.
func (r *round) answersFor() []coordination.MemberID {
	ids := r.mine()
	if intent := r.view.Intent; intent != nil && intent.At < len(intent.Steps) {
		step := intent.Steps[intent.At]
		if step.Do == plan.Stop && step.With[withRegion] == string(r.cluster.Spec.ProcessGroupIDPrefix) {
			ids = append(ids, step.Member)
		}
	}
	return ids
}

// wants tells whether an order is still to be carried out. Who acts may have given it just when the region withdrew what it
// was for.
func (r *round) wants(order *coordination.Order) bool {
	if order.Do != plan.Restart {
		return true
	}
	_, wanted := r.needs.wants[coordination.PendingForRestart][order.Member]
	return wanted
}

// obeyOne lets the agent carry an order out. What was carried out before is not done again, whoever asks.
func (r *round) obeyOne(ctx context.Context, order *coordination.Order) (failure string, err error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	id := string(order.Member)
	under := agent.Order{Token: order.Token, ID: orderID(order)}
	switch order.Do {
	case plan.Start:
		if err = r.arm(ctx, id); err == nil {
			_, err = r.agent.Start(ctx, id, under, agent.Launch{InitialCluster: r.initialCluster(id), State: agent.ClusterExisting})
		}
	case plan.Restart:
		_, err = r.agent.Restart(ctx, id, under)
	case plan.Stop:
		err = r.agent.Delete(ctx, id, under)
	default:
		return fmt.Sprintf("the operator %s does not know what %q is", r.c.Name(), order.Do), nil
	}
	switch {
	case errors.Is(err, agent.ErrFenced):
		return "", fmt.Errorf("an order with an old token: %w", err)
	case errors.Is(err, agent.ErrNotPrepared) && order.Do == plan.Stop:
		return "", nil // it is gone
	case errors.Is(err, agent.ErrNotPrepared), errors.Is(err, agent.ErrNotStarted), errors.Is(err, agent.ErrInvalid), errors.Is(err, agent.ErrDeleting):
		return err.Error(), nil
	case err != nil:
		return "", fromAgent(fmt.Sprintf("%s %s", order.Do, id), err)
	}
	return "", nil
}

// orderID tells the agent this order from others, whoever gives it.
func orderID(order *coordination.Order) string {
	return fmt.Sprintf("%d/%d/%s", order.Intent, order.At, order.Do)
}

// initialCluster is what a member has to know to join: all members, also those that have no name yet.
func (r *round) initialCluster(id string) string {
	var all []string
	for _, m := range r.state.Members {
		name := m.Name
		if name == "" {
			name = "not-started-" + m.ID.String()
		}
		for _, peer := range m.PeerURLs {
			if peer == r.processes[id].PeerURL {
				name = id
			}
			all = append(all, name+"="+peer)
		}
	}
	return strings.Join(all, ",")
}
