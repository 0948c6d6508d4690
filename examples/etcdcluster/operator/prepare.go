package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
)

// An agent that hangs must not make the operator hang, which others may wait for. An order takes as long as an etcd takes
// to end.
const (
	askTimeout   = 3 * time.Second
	orderTimeout = 15 * time.Second
)

// seeProcesses asks the agent what runs.
func (r *round) seeProcesses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := r.agent.Members(ctx)
	if err != nil {
		return &agentError{err}
	}
	r.processes = map[string]agent.Member{}
	for _, m := range found {
		r.processes[m.ID] = m
	}
	return nil
}

// standBack lets another operator go on with what this one cannot: it does not see its own region.
func (r *round) standBack(ctx context.Context) error {
	if r.task == nil {
		return nil
	}
	r.note("StoodBack", "The agent does not answer; another operator may go on with what was begun.")
	grant := r.task.grant
	r.task = nil
	return grant.Release(ctx)
}

// agentError is when the agent does not answer.
type agentError struct{ error }

func (e *agentError) Unwrap() error { return e.error }

// seeds are where the system may be found.
func (r *round) seeds() []string {
	var seeds []string
	for _, seed := range r.cluster.Spec.Seeds {
		seeds = append(seeds, string(seed))
	}
	for _, p := range r.processes {
		if p.Phase == agent.Running && !slices.Contains(seeds, p.ClientURL) {
			seeds = append(seeds, p.ClientURL)
		}
	}
	slices.Sort(seeds)
	return seeds
}

// prepare does what disturbs nobody: it gives new members their addresses and running ones their next arguments, throws
// away what the system does not know and nobody wants, and starts the first member of all.
func (r *round) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	for _, id := range r.needs.create {
		if _, err := r.agent.Prepare(ctx, id); err != nil {
			return fmt.Errorf("preparing %s: %w", id, err)
		}
		if _, err := r.agent.SetArgs(ctx, id, arguments(&r.cluster.Spec)); err != nil {
			return fmt.Errorf("preparing %s: %w", id, err)
		}
		r.lookIn(soon)
	}
	for _, id := range r.needs.arm {
		if _, err := r.agent.SetArgs(ctx, id, arguments(&r.cluster.Spec)); err != nil {
			return fmt.Errorf("giving %s other arguments: %w", id, err)
		}
		r.lookIn(soon)
	}
	for _, id := range r.needs.discard {
		if err := r.discard(ctx, id); err != nil {
			return err
		}
	}
	return r.bootstrap(ctx)
}

// discard removes a member that the system does not know. It is under no lock, because it disturbs nobody, but not after
// an order that is newer than what this operator knows.
func (r *round) discard(ctx context.Context, id string) error {
	if r.view.Intent != nil || r.task != nil {
		return nil // it may be about to become one
	}
	token := max(r.view.Token, 1)
	if !r.global() { // nobody has said which token is the newest
		grant, err := r.c.Lock(ctx)
		if err != nil {
			return r.refused(err)
		}
		defer func() { _ = grant.Release(ctx) }() // it ends by itself too
		token = grant.Token
	}
	err := r.agent.Delete(ctx, id, agent.Order{Token: token, ID: fmt.Sprintf("discard/%d", token)})
	if errors.Is(err, agent.ErrFenced) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("discarding %s: %w", id, err)
	}
	return nil
}

// bootstrap starts the first member of the system, if this is the region to do it, and only if there never was one.
func (r *round) bootstrap(ctx context.Context) error {
	if !r.cluster.Spec.Bootstrap || r.state != nil {
		return nil
	}
	for _, p := range r.processes {
		if p.Phase != agent.Prepared {
			return nil
		}
	}
	if slices.ContainsFunc(r.cluster.Status.Members, func(m etcdclusterv1alpha1.MemberStatus) bool { return m.MemberID != "" }) {
		return nil
	}
	ids := r.mine()
	if len(ids) == 0 {
		return nil // its addresses are there in the next round
	}
	first := r.processes[string(ids[0])]
	_, err := r.agent.Start(ctx, first.ID, agent.Order{Token: 1, ID: "bootstrap"}, agent.Launch{
		InitialCluster: first.ID + "=" + first.PeerURL, State: agent.ClusterNew,
	})
	if err != nil {
		return fmt.Errorf("starting the first member: %w", err)
	}
	r.note("Bootstrapped", first.ID+" starts the system.")
	r.lookIn(soon)
	return nil
}
