package operator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// needs are what a region wants, as it follows from its spec, its processes and the system.
type needs struct {
	// create are the IDs of members that are not there yet, and arm those that have to be given other arguments for their next start.
	create, arm []string
	// removing are those of members that have to go.
	removing map[string]bool
	pending  []coordination.Need
}

// decide returns what a region needs. The state is nil when nobody answers: then nothing is wanted from the system. The region has
// joined if it was seen to be a part of the system before.
func decide(spec *etcdclusterv1alpha1.EtcdClusterSpec, processes map[string]agent.Member, state *system.State, joined bool) needs {
	n := needs{removing: map[string]bool{}}
	agreed := state != nil && state.Agreed
	keep := n.sort(spec, processes, state)
	// A system that is there may know IDs that the agent does not, if it has lost its folder.
	for missing := int(spec.Members) - len(keep); missing > 0 && (agreed || !joined); missing-- {
		n.create = append(n.create, next(string(spec.ProcessGroupIDPrefix), processes, state, n.create))
	}
	for _, id := range keep {
		if !armed(processes[id], spec) {
			n.arm = append(n.arm, id)
		}
	}
	if !agreed {
		return n
	}
	// A member that goes is replaced before, so all that stay have to be there first, or ready to come.
	there := slices.DeleteFunc(slices.Clone(keep), func(id string) bool { return !canCome(processes[id], state, spec) })
	for _, id := range slices.Sorted(maps.Keys(processes)) {
		n.want(processes[id], state, spec, len(there) >= int(spec.Members))
	}
	for _, m := range state.Members {
		owned := func(by etcdclusterv1alpha1.Prefix) bool { return by.Owns(etcdclusterv1alpha1.MemberID(m.Name)) }
		lost := slices.ContainsFunc(spec.LostRegions, owned) || joined && owned(spec.ProcessGroupIDPrefix) && !m.Healthy()
		if _, own := processes[m.Name]; !own && lost {
			n.pend(Removal, m.Name, true)
		}
	}
	return n
}

func (n *needs) pend(action coordination.Action, id string, ready bool, addresses ...string) {
	n.pending = append(n.pending, coordination.Need{Action: action, Member: coordination.MemberID(id), Ready: ready, Addresses: addresses})
}

// has tells whether a member needs an action.
func (n *needs) has(action coordination.Action, id coordination.MemberID) bool {
	return slices.ContainsFunc(n.pending, func(need coordination.Need) bool { return need.Action == action && need.Member == id })
}

// sort tells the members that stay from those that go, and returns those that stay.
func (n *needs) sort(spec *etcdclusterv1alpha1.EtcdClusterSpec, processes map[string]agent.Member, state *system.State) []string {
	var keep []string
	for id, p := range processes {
		m, known := knownAs(p, state)
		switch {
		case p.Phase == agent.Deleting, slices.Contains(spec.Replace, etcdclusterv1alpha1.MemberID(id)):
			n.removing[id] = true
		case state != nil && state.Agreed && p.Phase != agent.Prepared && !known:
			n.removing[id] = true // it was removed, and can never come back with the data that it has
		case known && m.Learner && !m.Healthy() && p.Phase == agent.Running && !current(p, spec):
			n.removing[id] = true // it cannot start with what it has
		default:
			keep = append(keep, id)
		}
	}
	// Of too many members those go that are easiest to do without: without a vote, then the youngest.
	votes := func(id string) int {
		if m, known := knownAs(processes[id], state); known && !m.Learner || state == nil && processes[id].Phase == agent.Running {
			return 0
		}
		return 1
	}
	slices.SortFunc(keep, func(a, b string) int {
		return cmp.Or(cmp.Compare(votes(a), votes(b)), cmp.Compare(number(a), number(b)), cmp.Compare(a, b))
	})
	for len(keep) > int(spec.Members) {
		last := len(keep) - 1
		n.removing[keep[last]] = true
		keep = keep[:last]
	}
	return keep
}

// knownAs returns a member as the system knows it: by its name, or by its address as long as it has none.
func knownAs(p agent.Member, state *system.State) (system.Member, bool) {
	if state == nil {
		return system.Member{}, false
	}
	if known, is := state.Named(p.ID); is {
		return known, true
	}
	return state.At(p.PeerURL)
}

// want enters what a member needs from the system.
func (n *needs) want(p agent.Member, state *system.State, spec *etcdclusterv1alpha1.EtcdClusterSpec, replaced bool) {
	known, is := knownAs(p, state)
	switch {
	case n.removing[p.ID]:
		n.pend(Exclusion, p.ID, replaced || !is, p.PeerURL) // one that the system does not know is only stopped
	case !is || known.Learner:
		n.pend(Inclusion, p.ID, canCome(p, state, spec), p.PeerURL)
	case p.Phase == agent.Running && !current(p, spec):
		n.pend(Restart, p.ID, armed(p, spec))
	}
}

// canCome tells whether a member can be started as it is wanted, or has been.
func canCome(p agent.Member, state *system.State, spec *etcdclusterv1alpha1.EtcdClusterSpec) bool {
	_, is := knownAs(p, state)
	return is || armed(p, spec)
}

// armed tells whether a member's next start is the one that is wanted, and current whether its last one was.
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

// next is an ID that was not used yet: higher than all others, also of those that only the system knows.
func next(prefix string, processes map[string]agent.Member, state *system.State, also []string) string {
	highest := 0
	for _, id := range slices.AppendSeq(slices.Clone(also), maps.Keys(processes)) {
		highest = max(highest, number(id))
	}
	if state != nil {
		for _, m := range state.Members {
			if etcdclusterv1alpha1.Prefix(prefix).Owns(etcdclusterv1alpha1.MemberID(m.Name)) {
				highest = max(highest, number(m.Name))
			}
		}
	}
	return fmt.Sprintf("%s-%d", prefix, highest+1)
}

// number is what an ID ends with.
func number(id string) int {
	n, err := strconv.Atoi(id[strings.LastIndex(id, "-")+1:])
	if err != nil {
		return 0
	}
	return n
}
