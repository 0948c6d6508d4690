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

// What steps say to do.
const (
	doRestart  = "restart"
	doUpgrade  = "upgrade"
	doStart    = "start the server that replaces"
	doEvacuate = "move the streams away from"
	doEnd      = "end"
	doForget   = "forget"
)

// What else steps say: to which servers leaders move, and which server is new.
const withTo, withNew = "to", "new"

// system is the region's part of the NATS cluster.
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
		return nil, coordination.NotYet("%s would be alone", strings.Join(others, ", "))
	case proposal.Action == Upgrade:
		return []coordination.Step{{Do: doUpgrade, Members: ids, Order: true, Together: true}}, nil
	}
	if err := state.trouble(names...); err != nil {
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
	slices.SortStableFunc(names, func(a, b string) int { return state.leads(a) - state.leads(b) })
	for _, name := range names {
		first := cmp.Or(strings.Join(to, ","), names[len(names)-1])
		steps = append(steps, step(doRestart, coordination.MemberID(name), true, withTo, first))
		to = append(to, name)
	}
	return steps
}

// replace starts all new servers first, so that no stream moves to a server that is about to be replaced.
func replace(ids []coordination.MemberID, members coordination.Members) (steps []coordination.Step) {
	fresh := map[coordination.MemberID]string{}
	for _, id := range ids {
		fresh[id] = members[id].Addresses[0]
		steps = append(steps, step(doStart, id, true, withNew, fresh[id]))
	}
	to := strings.Join(slices.Sorted(maps.Values(fresh)), ",")
	for _, id := range ids {
		steps = append(steps, step(doEvacuate, id, false, withTo, to), step(doEnd, id, true, withTo, to), step(doForget, id, false, withTo, to))
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
		case doRestart, doUpgrade:
			err = s.restart(ctx, name, task)
		case doStart:
			err = s.order(ctx, task.With[withNew], agent.Start, task)
		case doEvacuate:
			err = s.ask(ctx, server.JSApiEvacuateServer, server.JSApiMetaServerEvacuateRequest{Server: name},
				func(state *state) bool { return state.servers[name] == 0 })
		case doEnd:
			if err = s.spare(ctx, name, task); err == nil {
				err = s.order(ctx, name, agent.Delete, task)
			}
		case doForget:
			err = s.ask(ctx, server.JSApiRemoveServer, server.JSApiMetaServerRemoveRequest{Server: name},
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
	if task.Do == doRestart && m.Task != task.ID {
		if err := s.spare(ctx, name, task); err != nil {
			return err
		}
	}
	return s.order(ctx, name, agent.Restart, task)
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

// spare makes sure that the others can do without a server: they are up to date, and lead all of its groups.
func (s *system) spare(ctx context.Context, name string, task coordination.Task) error {
	state := s.nats.state()
	if err := state.trouble(name); err != nil {
		return err
	}
	moved, err := s.nats.moveLeaders(ctx, state, name, strings.Split(task.With[withTo], ","))
	if err != nil || moved == 0 {
		return err
	}
	return coordination.NotYet("%d leaders move away from %s", moved, name)
}

// order has the agent do something with a server, once for a task, and waits until it is up to date.
func (s *system) order(ctx context.Context, name, do string, task coordination.Task) error {
	err := s.agent.Do(ctx, name, agent.Order{Do: do, Config: s.spec.Config, Protocol: s.spec.Protocol, Task: task.ID, Token: task.Token})
	if fenced, is := errors.AsType[*agent.FencedError](err); is {
		return coordination.Fenced(fenced.Seen)
	}
	if failed, is := errors.AsType[*agent.FailedError](err); is {
		return coordination.Failed("%s", failed.Reason)
	}
	if err != nil || do == agent.Delete || task.Do == doUpgrade { // which is up to date when the others are there
		return err
	}
	if m, err := s.member(ctx, name); err != nil || m.Ready {
		return err
	}
	return coordination.NotYet("%s is not up to date", name)
}

// ask sends a request to NATS until the condition is met, while the servers are up to date, except for the given ones.
func (s *system) ask(ctx context.Context, subject string, request any, isMet func(*state) bool, except ...string) error {
	state := s.nats.state()
	if err := state.trouble(except...); err != nil || isMet(state) {
		return err
	}
	return cmp.Or(call(ctx, s.nats.sys, subject, request), coordination.NotYet("NATS has not carried out the request yet"))
}

// Healthy waits until all servers are up to date, but for those that a plan has ended. A region that upgrades for itself does not
// wait for the others.
func (s *system) Healthy(_ context.Context, step coordination.Step) error {
	if step.Do == doUpgrade && s.spec.Mode != coordination.Global {
		return nil
	}
	if step.Do == doEnd {
		return s.nats.state().trouble(string(step.Member()))
	}
	return s.nats.state().trouble()
}
