package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// An agent that hangs must not make the operator hang, which others may wait for. An order takes as long as an etcd takes to end.
const (
	askTimeout   = 3 * time.Second
	orderTimeout = 15 * time.Second
)

// agentError is returned when the agent does not answer.
type agentError struct{ error }

func (e *agentError) Unwrap() error { return e.error }

// fromAgent tells what the agent refuses from that it does not answer.
func fromAgent(doing string, err error) error {
	err = fmt.Errorf("%s: %w", doing, err)
	if refused := (&agent.RefusedError{}); errors.As(err, &refused) {
		return err
	}
	return &agentError{err}
}

// observe looks at the region's processes and the system, and prepares what disturbs nobody.
func (r *region) observe(ctx context.Context, view *coordination.View) error {
	r.view, r.observed = view, true
	if err := r.see(ctx, r.agent, r.cluster.SystemName()); err != nil {
		return &agentError{err}
	}
	if r.system != nil {
		r.state, r.unseen = r.system.State(ctx) // nil if nobody answers
	}
	r.needs = decide(&r.cluster.Spec, r.processes, r.state, r.cluster.Status.ClusterID != "")
	r.failed = r.prepare(ctx)
	return nil
}

// see asks the agent for the region's processes in a system.
func (p *part) see(ctx context.Context, from agentOf, system string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := from.Members(ctx)
	if err != nil {
		return err
	}
	p.processes = map[string]agent.Member{}
	for _, m := range found {
		if m.System == "" || m.System == system {
			p.processes[m.ID] = m
		}
	}
	return nil
}

// prepare gives new members their addresses and running ones what they start with next, and starts the first member of all.
func (r *region) prepare(ctx context.Context) error {
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
	}
	for _, id := range r.needs.arm {
		if err := r.arm(ctx, id); err != nil {
			errs = append(errs, fromAgent("setting what "+id+" starts with next", err))
		}
	}
	return errors.Join(append(errs, r.bootstrap(ctx))...)
}

// arm sets what a member starts with next.
func (r *region) arm(ctx context.Context, id string) error {
	if r.processes[id].Version != r.cluster.Spec.Version {
		if _, err := r.agent.SetVersion(ctx, id, r.cluster.Spec.Version); err != nil {
			return err
		}
	}
	_, err := r.agent.SetArgs(ctx, id, arguments(&r.cluster.Spec))
	return err
}

// bootstrap starts the first member of the system if this region has to, and only if there never was one: the agent may have lost
// all, and the others go on without it.
func (r *region) bootstrap(ctx context.Context) error {
	if !r.cluster.Spec.Bootstrap || r.state != nil || r.cluster.Status.ClusterID != "" {
		return nil
	}
	var ids []string
	for id, p := range r.processes {
		if p.Phase != agent.Prepared {
			return nil
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil // its addresses are there the next time
	}
	first := r.processes[slices.Min(ids)]
	_, err := r.agent.Start(ctx, first.ID, agent.Order{Token: 1, System: r.cluster.SystemName(), ID: "bootstrap"}, agent.Launch{
		InitialCluster: first.ID + "=" + first.PeerURL, State: agent.ClusterNew,
	})
	if err != nil {
		return fromAgent("starting the first member", err)
	}
	r.note("Bootstrapped", first.ID+" starts the system.")
	return nil
}
