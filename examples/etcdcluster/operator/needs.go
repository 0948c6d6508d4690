package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// An operator must not hang together with its agent or a member, because other participants may wait for it. An
// etcd may take long to stop.
const listTimeout, changeTimeout, orderTimeout = 3 * time.Second, 5 * time.Second, 15 * time.Second

// errAgentUnreachable is returned when the agent does not answer.
var errAgentUnreachable = errors.New("the agent does not answer")

// observe reads the state of the processes and the system, and makes the preparations that disturb no member.
func (r *region) observe(ctx context.Context, view *coordination.View) error {
	r.view = view
	if err := r.listProcesses(ctx); err != nil {
		return err
	}
	r.stateErr = system.ErrUnreachable
	if r.system != nil {
		r.state, r.stateErr = r.system.State(ctx, r.cluster.Addresses()...)
	}
	r.needs = decide(&r.cluster.Spec, r.processes, r.state, r.cluster.Status.ClusterID != "")
	if !r.global() {
		r.view = coordination.Needs{Pending: r.needs.pending}.View(string(r.cluster.Spec.ProcessGroupIDPrefix))
	}
	r.prepareErr = r.prepare(ctx)
	return nil
}

// listProcesses asks the agent for the processes of the system.
func (r *region) listProcesses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	all, err := r.agent.Members(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errAgentUnreachable, err)
	}
	r.processes = map[string]agent.Member{}
	for _, m := range all {
		if m.System == "" || m.System == r.cluster.SystemName() {
			r.processes[m.ID] = m
		}
	}
	return nil
}

// prepare gives new members their addresses, and all members the settings for their next start. The region with Bootstrap starts the
// first member, unless the system has ever existed: the agent may have lost its data while the other regions continue without it.
func (r *region) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	var errs []error
	for _, id := range r.needs.create {
		_, err := r.agent.Prepare(ctx, id, r.cluster.SystemName())
		if err == nil {
			err = r.setNextStart(ctx, id)
		}
		errs = append(errs, err)
	}
	for _, id := range r.needs.outdated {
		errs = append(errs, r.setNextStart(ctx, id))
	}
	isNew := r.cluster.Spec.Bootstrap && r.cluster.Status.ClusterID == "" && r.state == nil
	for _, p := range r.processes {
		isNew = isNew && p.Phase == agent.Prepared
	}
	if isNew && len(r.processes) > 0 {
		first := r.processes[slices.Min(slices.Collect(maps.Keys(r.processes)))]
		order := agent.Order{Token: 1, System: r.cluster.SystemName(), ID: "bootstrap"}
		launch := agent.Launch{InitialCluster: first.ID + "=" + first.PeerURL, State: agent.ClusterNew}
		_, err := r.agent.Start(ctx, first.ID, order, launch)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// setNextStart sets the version and arguments for the next start of a member.
func (r *region) setNextStart(ctx context.Context, id string) error {
	if r.processes[id].Version != r.cluster.Spec.Version {
		if _, err := r.agent.SetVersion(ctx, id, r.cluster.Spec.Version); err != nil {
			return err
		}
	}
	_, err := r.agent.SetArgs(ctx, id, arguments(&r.cluster.Spec))
	return err
}

// needs are the needs of a region.
type needs struct {
	// create are the IDs of members to prepare, and outdated those of members whose settings for the next start
	// have to be changed.
	create, outdated []string
	// removing are the members that have to be removed.
	removing map[string]bool
	// pending are the needs that the region declares to the others.
	pending []coordination.Need
}

// decide compares the spec of a region with its processes and the system. The state is nil while the system does not answer: then
// nothing is needed from it. Joined is set if the region was a part of the system before.
func decide(
	spec *etcdclusterv1alpha1.EtcdClusterSpec, processes map[string]agent.Member, state *system.State, joined bool,
) needs {
	n := needs{removing: map[string]bool{}}
	args, highest, remaining, ready := arguments(spec), 0, int32(0), int32(0)
	upToDate := func(p agent.Member) bool { return maps.Equal(p.Args, args) && p.Version == spec.Version }
	hasVote := func(p agent.Member) int {
		if m, known := state.Known(p.ID, p.PeerURL); known && !m.Learner || state == nil && p.Phase == agent.Running {
			return 1
		}
		return 0
	}
	// If there are too many members, those without a vote are removed first, and then the youngest.
	all := slices.SortedFunc(maps.Values(processes), func(a, b agent.Member) int {
		return cmp.Or(hasVote(b)-hasVote(a), number(a.ID)-number(b.ID), strings.Compare(a.ID, b.ID))
	})
	for _, p := range all {
		highest = max(highest, number(p.ID))
		m, known := state.Known(p.ID, p.PeerURL)
		isRemoved := state != nil && !known && p.Phase != agent.Prepared // its data are useless
		cannotStart := m.Learner && !m.Healthy() && p.Phase == agent.Running && !current(p, spec)
		isReplaced := slices.Contains(spec.Replace, etcdclusterv1alpha1.MemberID(p.ID))
		if p.Phase == agent.Deleting || isReplaced || isRemoved || cannotStart || remaining == spec.Members {
			n.removing[p.ID] = true
			continue
		}
		if remaining++; known || upToDate(p) {
			ready++
		}
		if !upToDate(p) {
			n.outdated = append(n.outdated, p.ID)
		}
	}
	if state == nil && joined {
		return n // an agent that has lost its data does not know the used IDs
	}
	if state != nil {
		for _, p := range all {
			switch m, known := state.Known(p.ID, p.PeerURL); {
			case n.removing[p.ID]: // when all remaining members are known or prepared
				n.add(Exclusion, p.ID, ready == spec.Members || !known, p.PeerURL)
			case !known || m.Learner:
				n.add(Inclusion, p.ID, known || upToDate(p), p.PeerURL)
			case p.Phase == agent.Running && !current(p, spec):
				n.add(Restart, p.ID, upToDate(p))
			}
		}
		for _, m := range state.Members {
			owns := func(prefix etcdclusterv1alpha1.Prefix) bool { return prefix.Owns(etcdclusterv1alpha1.MemberID(m.Name)) }
			own := owns(spec.ProcessGroupIDPrefix)
			if own {
				highest = max(highest, number(m.Name))
			}
			if _, exists := processes[m.Name]; !exists && (slices.ContainsFunc(spec.LostRegions, owns) || own && joined && !m.Healthy()) {
				n.add(Removal, m.Name, true)
			}
		}
	}
	for ; remaining < spec.Members; remaining++ {
		highest++
		n.create = append(n.create, fmt.Sprintf("%s-%d", spec.ProcessGroupIDPrefix, highest))
	}
	return n
}

func (n *needs) add(action coordination.Action, id string, ready bool, addresses ...string) {
	need := coordination.Need{Action: action, Member: coordination.MemberID(id), Ready: ready, Addresses: addresses}
	n.pending = append(n.pending, need)
}

// has reports whether a member needs an action.
func (n *needs) has(action coordination.Action, id coordination.MemberID) bool {
	return slices.ContainsFunc(n.pending, func(need coordination.Need) bool { return need.Action == action && need.Member == id })
}

// current reports whether the last start of a member used the settings in the spec.
func current(p agent.Member, spec *etcdclusterv1alpha1.EtcdClusterSpec) bool {
	return maps.Equal(p.Applied, arguments(spec)) && p.AppliedVersion == spec.Version
}

func arguments(spec *etcdclusterv1alpha1.EtcdClusterSpec) map[string]string {
	args := map[string]string{}
	for name, value := range spec.Args {
		args[name] = string(value)
	}
	return args
}

// number returns the number at the end of an ID, or 0.
func number(id string) int {
	n, _ := strconv.Atoi(id[strings.LastIndex(id, "-")+1:])
	return n
}
