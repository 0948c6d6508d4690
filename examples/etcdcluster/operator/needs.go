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
	// create are the IDs of members that are not there yet.
	create []string
	// removing are those of members that have to go.
	removing map[string]bool
	// discard are those of members that the system does not know any more, or never did, and that are not wanted.
	discard []string
	// arm are those of members that have to be given other arguments for their next start.
	arm []string
	// wants are the entries that the operator should have in the sets.
	wants coordination.Wants
}

// decide says what a region needs. The state is nil when nobody answers: then nothing is wanted from the system.
func decide(spec *etcdclusterv1alpha1.EtcdClusterSpec, processes map[string]agent.Member, state *system.State) needs {
	n := needs{removing: map[string]bool{}, wants: coordination.Wants{}}
	keep := n.sort(spec, processes, state)
	for missing := int(spec.Members) - len(keep); missing > 0; missing-- {
		n.create = append(n.create, next(string(spec.ProcessGroupIDPrefix), processes, n.create))
	}
	args := arguments(spec)
	for _, id := range keep {
		if !maps.Equal(processes[id].Args, args) {
			n.arm = append(n.arm, id)
		}
	}
	if state == nil || !state.Agreed {
		return n
	}
	// Who goes is replaced before, so all that are to stay have to be there first.
	replaced := len(keep) >= int(spec.Members)
	for id := range processes {
		n.want(processes[id], state, args, replaced)
	}
	for _, lost := range spec.LostRegions {
		for _, m := range state.Members {
			if lost.Owns(etcdclusterv1alpha1.MemberID(m.Name)) {
				n.wants.Want(coordination.PendingForRemoval, coordination.MemberID(m.Name))
			}
		}
	}
	return n
}

// sort tells the members that stay from those that go, and returns those that stay.
func (n *needs) sort(spec *etcdclusterv1alpha1.EtcdClusterSpec, processes map[string]agent.Member, state *system.State) []string {
	var keep []string
	for id, p := range processes {
		if p.Phase == agent.Deleting || slices.Contains(spec.Replace, etcdclusterv1alpha1.MemberID(id)) {
			n.removing[id] = true
			continue
		}
		keep = append(keep, id)
	}
	// Of too many those go that are easiest to do without: who does not vote yet, then the youngest.
	slices.SortFunc(keep, func(a, b string) int {
		va, vb := votes(processes[a], state), votes(processes[b], state)
		switch {
		case va && !vb:
			return -1
		case vb && !va:
			return 1
		}
		return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b))
	})
	for len(keep) > int(spec.Members) {
		last := len(keep) - 1
		n.removing[keep[last]] = true
		keep = keep[:last]
	}
	return keep
}

// want enters what a member needs from the system.
func (n *needs) want(p agent.Member, state *system.State, args map[string]string, replaced bool) {
	id := coordination.MemberID(p.ID)
	known, is := state.Named(p.ID)
	if !is {
		known, is = state.At(p.PeerURL)
	}
	switch {
	case n.removing[p.ID] && !is:
		if p.Phase != agent.Deleting {
			n.discard = append(n.discard, p.ID)
		}
	case n.removing[p.ID]:
		n.wants.Want(coordination.PendingForRemoval, id)
		n.wants.Want(coordination.PendingForExclusion, id)
		if replaced {
			n.wants.Want(coordination.ReadyForExclusion, id, p.PeerURL)
		}
	case !is || known.Learner:
		n.wants.Want(coordination.PendingForInclusion, id)
		n.wants.Want(coordination.ReadyForInclusion, id, p.PeerURL)
	case p.Phase == agent.Running && !maps.Equal(p.Applied, args):
		n.wants.Want(coordination.PendingForRestart, id)
		if maps.Equal(p.Args, args) {
			n.wants.Want(coordination.ReadyForRestart, id)
		}
	}
}

func votes(p agent.Member, state *system.State) bool {
	if state == nil {
		return p.Phase == agent.Running
	}
	m, known := state.Named(p.ID)
	return known && !m.Learner
}

func arguments(spec *etcdclusterv1alpha1.EtcdClusterSpec) map[string]string {
	args := map[string]string{}
	for name, value := range spec.Args {
		args[name] = string(value)
	}
	return args
}

// next is an ID that was not used yet: higher than all others.
func next(prefix string, processes map[string]agent.Member, also []string) string {
	highest := 0
	for _, id := range slices.AppendSeq(slices.Clone(also), maps.Keys(processes)) {
		highest = max(highest, number(id))
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
