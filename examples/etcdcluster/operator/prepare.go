package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
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
		if m.System == "" || m.System == r.cluster.SystemName() {
			r.processes[m.ID] = m
		}
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

// fromAgent tells what the agent refuses from that it does not answer.
func fromAgent(doing string, err error) error {
	if _, refused := errors.AsType[*agent.RefusedError](err); refused {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return &agentError{fmt.Errorf("%s: %w", doing, err)}
}

// storeError is when the operators cannot tell each other something.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

func inStore(err error) error {
	if err == nil {
		return nil
	}
	return &storeError{err}
}

// seeds are where the system may be found.
func (r *round) seeds() []string {
	var seeds []string
	for _, seed := range slices.Concat(r.cluster.Spec.Seeds, r.cluster.Status.Endpoints) {
		if !slices.Contains(seeds, string(seed)) {
			seeds = append(seeds, string(seed))
		}
	}
	for _, p := range r.processes {
		if p.Phase == agent.Running && !slices.Contains(seeds, p.ClientURL) {
			seeds = append(seeds, p.ClientURL)
		}
	}
	slices.Sort(seeds)
	return seeds
}

// prepare does what disturbs nobody: it gives new members their addresses and running ones what they start with next,
// throws away what the system does not know and nobody wants, and starts the first member of all. What the agent does
// not do keeps this operator from nothing else: others may wait for it.
func (r *round) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	var errs []error
	for _, id := range r.needs.create {
		_, err := r.agent.Prepare(ctx, id, r.cluster.SystemName())
		if err == nil {
			err = r.arm(ctx, id)
		}
		if err != nil {
			errs = append(errs, fromAgent("preparing "+id, err))
		}
		r.lookIn(soon)
	}
	for _, id := range r.needs.arm {
		if err := r.arm(ctx, id); err != nil {
			errs = append(errs, fromAgent("setting what "+id+" starts with next", err))
		}
		r.lookIn(soon)
	}
	for _, id := range r.needs.discard {
		errs = append(errs, r.discard(ctx, id))
	}
	r.failed = errors.Join(append(errs, r.bootstrap(ctx))...)
	return nil
}

// arm sets what a member starts with next.
func (r *round) arm(ctx context.Context, id string) error {
	if r.processes[id].Version != r.cluster.Spec.Version {
		if _, err := r.agent.SetVersion(ctx, id, r.cluster.Spec.Version); err != nil {
			return err
		}
	}
	_, err := r.agent.SetArgs(ctx, id, arguments(&r.cluster.Spec))
	return err
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
		return fromAgent("discarding "+id, err)
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
	if r.cluster.Status.ClusterID != "" {
		return nil // the agent may have lost all, and the others go on without it
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
		return fromAgent("starting the first member", err)
	}
	r.note("Bootstrapped", first.ID+" starts the system.")
	r.lookIn(soon)
	return nil
}
