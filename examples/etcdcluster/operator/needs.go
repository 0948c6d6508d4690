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

// An operator must not hang with its agent or a member, because others may wait for it. An etcd may take long to stop.
const listTimeout, changeTimeout, orderTimeout = 3 * time.Second, 5 * time.Second, 15 * time.Second

// errAgentUnreachable is returned when the agent does not answer.
var errAgentUnreachable = errors.New("the agent does not answer")

// observe looks at the processes and the system, and does what the region needs and disturbs nobody.
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

// prepare gives new members their addresses, and all the settings for their next start. A region that bootstraps the system starts
// the first one, unless there ever was a system: the agent may have lost all, and the other regions go on without it.
func (r *region) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	var errs []error
	for _, id := range r.needs.create {
		_, err := r.agent.Prepare(ctx, id, r.cluster.SystemName())
		if err == nil {
			err = r.arm(ctx, id)
		}
		errs = append(errs, err)
	}
	for _, id := range r.needs.arm {
		errs = append(errs, r.arm(ctx, id))
	}
	isStarted := func(p agent.Member) bool { return p.Phase != agent.Prepared }
	all := slices.SortedFunc(maps.Values(r.processes), func(a, b agent.Member) int { return strings.Compare(a.ID, b.ID) })
	if r.cluster.Spec.Bootstrap && r.cluster.Status.ClusterID == "" && r.state == nil && len(all) > 0 && !slices.ContainsFunc(all, isStarted) {
		order := agent.Order{Token: 1, System: r.cluster.SystemName(), ID: "bootstrap"}
		launch := agent.Launch{InitialCluster: all[0].ID + "=" + all[0].PeerURL, State: agent.ClusterNew}
		_, err := r.agent.Start(ctx, all[0].ID, order, launch)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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

// needs are what a region needs.
type needs struct {
	// create are the IDs of members to prepare, and arm those of members that need other settings for their next start.
	create, arm []string
	// removing are the members that have to go.
	removing map[string]bool
	// pending is what the region needs from the system, in agreement with the others.
	pending []coordination.Need
}

// decide compares the spec of a region with its processes and the system. The state is nil while the system does not answer: then
// nothing is needed from it. Joined is set if the region was a part of the system before.
func decide(spec *etcdclusterv1alpha1.EtcdClusterSpec, processes map[string]agent.Member, state *system.State, joined bool) needs {
	n := needs{removing: map[string]bool{}}
	keep := n.keep(spec, processes, state)
	used := slices.Collect(maps.Keys(processes))
	if state != nil { // an agent that lost its data does not know all IDs
		for _, m := range state.Members {
			used = append(used, m.Name)
		}
	}
	for missing := int(spec.Members) - len(keep); missing > 0 && (state != nil || !joined); missing-- {
		id := unusedID(spec.ProcessGroupIDPrefix, used)
		n.create, used = append(n.create, id), append(used, id)
	}
	ready := 0
	for _, id := range keep {
		if !armed(processes[id], spec) {
			n.arm = append(n.arm, id)
		}
		if _, known := knownAs(processes[id], state); known || armed(processes[id], spec) {
			ready++
		}
	}
	if state == nil {
		return n
	}
	for _, id := range slices.Sorted(maps.Keys(processes)) { // a member goes when all that stay are there, or can come
		n.need(processes[id], state, spec, ready >= int(spec.Members))
	}
	for _, m := range state.Members {
		owns := func(prefix etcdclusterv1alpha1.Prefix) bool { return prefix.Owns(etcdclusterv1alpha1.MemberID(m.Name)) }
		lost := slices.ContainsFunc(spec.LostRegions, owns) || joined && owns(spec.ProcessGroupIDPrefix) && !m.Healthy()
		if _, exists := processes[m.Name]; !exists && lost {
			n.add(Removal, m.Name, true)
		}
	}
	return n
}

// keep finds out which members have to go, and returns the others.
func (n *needs) keep(spec *etcdclusterv1alpha1.EtcdClusterSpec, processes map[string]agent.Member, state *system.State) []string {
	var keep []string
	votes := map[string]int{}
	for id, p := range processes {
		m, known := knownAs(p, state)
		switch {
		case p.Phase == agent.Deleting, slices.Contains(spec.Replace, etcdclusterv1alpha1.MemberID(id)),
			state != nil && p.Phase != agent.Prepared && !known,                                 // it was removed: its data are of no use any more
			known && m.Learner && !m.Healthy() && p.Phase == agent.Running && !current(p, spec): // it cannot start with its settings
			n.removing[id] = true
		default:
			keep = append(keep, id)
		}
		if known && !m.Learner || state == nil && p.Phase == agent.Running {
			votes[id] = 1
		}
	}
	// Of too many members those go first that have no vote, then the youngest.
	slices.SortFunc(keep, func(a, b string) int { return cmp.Or(votes[b]-votes[a], number(a)-number(b), strings.Compare(a, b)) })
	for _, id := range keep[min(len(keep), int(spec.Members)):] {
		n.removing[id] = true
	}
	return keep[:min(len(keep), int(spec.Members))]
}

// need adds what a member needs from the system. Replaceable is set when the region can do without it.
func (n *needs) need(p agent.Member, state *system.State, spec *etcdclusterv1alpha1.EtcdClusterSpec, replaceable bool) {
	m, known := knownAs(p, state)
	switch {
	case n.removing[p.ID]:
		n.add(Exclusion, p.ID, replaceable || !known, p.PeerURL)
	case !known || m.Learner:
		n.add(Inclusion, p.ID, known || armed(p, spec), p.PeerURL)
	case p.Phase == agent.Running && !current(p, spec):
		n.add(Restart, p.ID, armed(p, spec))
	}
}

func (n *needs) add(action coordination.Action, id string, ready bool, addresses ...string) {
	n.pending = append(n.pending, coordination.Need{Action: action, Member: coordination.MemberID(id), Ready: ready, Addresses: addresses})
}

// has tells whether a member needs an action.
func (n *needs) has(action coordination.Action, id coordination.MemberID) bool {
	return slices.ContainsFunc(n.pending, func(need coordination.Need) bool { return need.Action == action && need.Member == id })
}

// knownAs returns a member as the system knows it: by its name, or by its peer URL before it was started.
func knownAs(p agent.Member, state *system.State) (system.Member, bool) {
	if state == nil {
		return system.Member{}, false
	}
	if m, known := state.Named(p.ID); known {
		return m, true
	}
	return state.At(p.PeerURL)
}

// armed tells whether a member's next start is with the settings of the spec, and current whether its last one was.
func armed(p agent.Member, spec *etcdclusterv1alpha1.EtcdClusterSpec) bool {
	return maps.Equal(p.Args, arguments(spec)) && p.Version == spec.Version
}

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

// unusedID returns an ID with a number above those of all others.
func unusedID(prefix etcdclusterv1alpha1.Prefix, used []string) string {
	highest := 0
	for _, id := range used {
		if prefix.Owns(etcdclusterv1alpha1.MemberID(id)) {
			highest = max(highest, number(id))
		}
	}
	return fmt.Sprintf("%s-%d", prefix, highest+1)
}

// number is what an ID ends with, 0 if that is no number.
func number(id string) int {
	n, _ := strconv.Atoi(id[strings.LastIndex(id, "-")+1:])
	return n
}
