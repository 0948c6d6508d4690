package operator

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/ringmaster-project/ringmaster/examples/natscluster/agent"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// The actions. An Upgrade is incompatible with the former version, so all servers are restarted together. A Replacement replaces a
// server by another one, which gets its streams.
const (
	Restart     coordination.Action = "Restart"
	Upgrade     coordination.Action = "Upgrade"
	Replacement coordination.Action = "Replacement"
)

// The operations of steps.
const (
	stepRestart  = "restart"
	stepUpgrade  = "upgrade"
	stepStart    = "start the server that replaces"
	stepEvacuate = "move the streams away from"
	stepEnd      = "end"
	stepForget   = "forget"
)

// Keys of Step.With: the servers to which leaders move, and the name of the new server.
const leadersTo, replacement = "to", "new"

// system implements coordination.System for the servers of one region.
type system struct {
	agent *agent.Client
	nats  cluster
	spec  Spec
}

// need returns the action that a server needs, or "", and its replacement.
func (s *system) need(m agent.Member) (coordination.Action, []string) {
	switch {
	case m.Protocol != s.spec.Protocol:
		return Upgrade, nil
	case s.spec.Replace[m.Name] != "":
		return Replacement, []string{s.spec.Replace[m.Name]}
	case m.Config != s.spec.Config:
		return Restart, nil
	}
	return "", nil
}

// Needs compares the servers with the spec.
func (s *system) Needs(ctx context.Context, _ *coordination.View) (needs coordination.Needs, err error) {
	members, err := s.agent.Members(ctx)
	for i, m := range members {
		needs.Members = append(needs.Members, coordination.MemberID(m.Name))
		if action, with := s.need(m); action != "" {
			needs.Pending = append(needs.Pending, coordination.Need{Action: action, Member: needs.Members[i], Ready: true, Addresses: with})
		}
	}
	return needs, err
}

// Plan disturbs one server at a time, except for an upgrade.
func (s *system) Plan(_ context.Context, proposal coordination.Proposal) ([]coordination.Step, error) {
	state := s.nats.state()
	ids, names := proposal.IDs(), []string{}
	for _, id := range ids {
		names = append(names, string(id))
	}
	others := slices.DeleteFunc(slices.Clone(state.peers), func(name string) bool { return slices.Contains(names, name) })
	switch {
	case proposal.Action == Upgrade && s.spec.Mode == coordination.Global && len(others) > 0:
		return nil, coordination.NotYet("%s does not need the upgrade yet and would be isolated", strings.Join(others, ", "))
	case proposal.Action == Upgrade:
		return []coordination.Step{{Do: stepUpgrade, Members: ids, Order: true, Together: true}}, nil
	}
	if err := state.notReady(names...); err != nil {
		return nil, err
	}
	if proposal.Action == Replacement {
		return replace(ids, proposal.Members), nil
	}
	return restart(state, names, others), nil
}

// restart plans the order in which the fewest leaders have to move: the server that leads the fewest groups is first. Its leaders
// move to the last one; those of the others move to servers that were restarted already, or need no restart.
func restart(state *state, names, to []string) (steps []coordination.Step) {
	slices.SortStableFunc(names, func(a, b string) int { return state.leaderCount(a) - state.leaderCount(b) })
	for _, name := range names {
		first := cmp.Or(strings.Join(to, ","), names[len(names)-1])
		steps = append(steps, step(stepRestart, coordination.MemberID(name), true, leadersTo, first))
		to = append(to, name)
	}
	return steps
}

// replace starts all new servers first, so that no stream moves to a server that is about to be replaced.
func replace(ids []coordination.MemberID, members coordination.Members) (steps []coordination.Step) {
	fresh := map[coordination.MemberID]string{}
	for _, id := range ids {
		fresh[id] = members[id].Addresses[0]
		steps = append(steps, step(stepStart, id, true, replacement, fresh[id]))
	}
	to := strings.Join(slices.Sorted(maps.Values(fresh)), ",")
	for _, id := range ids {
		steps = append(steps, step(stepEvacuate, id, false, leadersTo, to), step(stepEnd, id, true, leadersTo, to), step(stepForget, id, false, leadersTo, to))
	}
	return steps
}

func step(do string, id coordination.MemberID, order bool, key, value string) coordination.Step {
	return coordination.Step{Do: do, Members: []coordination.MemberID{id}, Order: order, With: map[string]string{key: value}}
}

// Execute carries out a step.
func (s *system) Execute(ctx context.Context, task coordination.Task) (err error) {
	for _, id := range task.Members {
		switch name := string(id); task.Do {
		case stepRestart, stepUpgrade:
			err = s.restart(ctx, name, task)
		case stepStart:
			err = s.giveOrder(ctx, task.With[replacement], agent.Start, task)
		case stepEvacuate:
			err = s.requestUntil(ctx, server.JSApiEvacuateServer, server.JSApiMetaServerEvacuateRequest{Server: name},
				func(state *state) bool { return state.servers[name] == 0 })
		case stepEnd:
			if err = s.makeDispensable(ctx, name, task); err == nil {
				err = s.giveOrder(ctx, name, agent.Delete, task)
			}
		case stepForget:
			err = s.requestUntil(ctx, server.JSApiRemoveServer, server.JSApiMetaServerRemoveRequest{Server: name},
				func(state *state) bool { return !slices.Contains(state.peers, name) }, name)
		default:
			err = coordination.Failed("this version of the operator does not know the step %q", task.Do)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restart restarts a server with the configuration of the spec, unless that is done, or no longer needed.
func (s *system) restart(ctx context.Context, name string, task coordination.Task) error {
	m, err := s.member(ctx, name)
	if action, _ := s.need(m); err != nil || action == "" && m.Task != task.ID {
		return err
	}
	if task.Do == stepRestart && m.Task != task.ID {
		if err := s.makeDispensable(ctx, name, task); err != nil {
			return err
		}
	}
	return s.giveOrder(ctx, name, agent.Restart, task)
}

// member returns the state of a server from the agent.
func (s *system) member(ctx context.Context, name string) (agent.Member, error) {
	members, err := s.agent.Members(ctx)
	for _, m := range members {
		if m.Name == name {
			return m, nil
		}
	}
	if err == nil {
		err = coordination.Failed("server %s not found", name)
	}
	return agent.Member{}, err
}

// makeDispensable returns nil when the cluster can spare a server: the others are up to date, and lead all of its groups.
func (s *system) makeDispensable(ctx context.Context, name string, task coordination.Task) error {
	state := s.nats.state()
	if err := state.notReady(name); err != nil {
		return err
	}
	moved, err := s.nats.moveLeaders(ctx, state, name, strings.Split(task.With[leadersTo], ","))
	if err != nil || moved == 0 {
		return err
	}
	return coordination.NotYet("moving %d leaders away from %s", moved, name)
}

// giveOrder makes the agent carry out an order, once for a task, and waits until the server is up to date.
func (s *system) giveOrder(ctx context.Context, name, do string, task coordination.Task) error {
	err := s.agent.Do(ctx, name, agent.Order{Do: do, Config: s.spec.Config, Protocol: s.spec.Protocol, Task: task.ID, Token: task.Token})
	if fenced, ok := errors.AsType[*agent.FencedError](err); ok {
		return coordination.Fenced(fenced.Seen)
	}
	if failed, ok := errors.AsType[*agent.FailedError](err); ok {
		return coordination.Failed("%s", failed.Reason)
	}
	if err != nil || do == agent.Delete || task.Do == stepUpgrade { // a server of an upgrade is up to date only after the others have started
		return err
	}
	if m, err := s.member(ctx, name); err != nil || m.Ready {
		return err
	}
	return coordination.NotYet("%s is not up to date", name)
}

// requestUntil sends a request to NATS until the condition is met, while the servers are up to date, except for the given ones.
func (s *system) requestUntil(ctx context.Context, subject string, request any, isMet func(*state) bool, except ...string) error {
	state := s.nats.state()
	if err := state.notReady(except...); err != nil || isMet(state) {
		return err
	}
	return cmp.Or(call(ctx, s.nats.sys, subject, request), coordination.NotYet("NATS has not carried out the request yet"))
}

// Healthy returns nil when all servers are up to date, except the ones that were ended. In local mode an upgrade does not wait for the
// other regions.
func (s *system) Healthy(_ context.Context, step coordination.Step) error {
	if step.Do == stepUpgrade && s.spec.Mode != coordination.Global {
		return nil
	}
	if step.Do == stepEnd {
		return s.nats.state().notReady(string(step.Member()))
	}
	return s.nats.state().notReady()
}
