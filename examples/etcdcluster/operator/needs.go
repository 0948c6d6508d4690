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

// heard is what counts for the needs of a region beside what it sees.
type heard struct {
	// joined is whether the region has been seen to be a part of the system before.
	joined bool
	// claims are the peer URLs of all members that are to come, of all regions. It is nil while not all were heard.
	claims map[string]bool
}

// decide says what a region needs. The state is nil when nobody answers: then nothing is wanted from the system.
func decide(spec *etcdclusterv1alpha1.EtcdClusterSpec, processes map[string]agent.Member, state *system.State, h heard) needs {
	n := needs{removing: map[string]bool{}, wants: coordination.Wants{}}
	agreed := state != nil && state.Agreed
	keep := n.sort(spec, processes, state)
	// A system that is there may know IDs that the agent does not, if it has lost its folder.
	for missing := int(spec.Members) - len(keep); missing > 0 && (agreed || !h.joined); missing-- {
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
	// Who goes is replaced before, so all that are to stay have to be there first, or ready to come.
	there := slices.DeleteFunc(slices.Clone(keep), func(id string) bool { return !canCome(processes[id], state, spec) })
	replaced := len(there) >= int(spec.Members)
	for id := range processes {
		n.want(processes[id], state, spec, replaced)
	}
	for _, m := range state.Members {
		if _, own := processes[m.Name]; !own {
			n.wantLost(m, spec, h)
		}
	}
	return n
}

// wantLost enters a member of the system that nobody is left to end: of a region that does not return, of this region if the
// agent does not have it any more, or one that was expected to come and that nobody lets come.
func (n *needs) wantLost(m system.Member, spec *etcdclusterv1alpha1.EtcdClusterSpec, h heard) {
	owned := func(by etcdclusterv1alpha1.Prefix) bool { return by.Owns(etcdclusterv1alpha1.MemberID(m.Name)) }
	switch {
	case slices.ContainsFunc(spec.LostRegions, owned), h.joined && owned(spec.ProcessGroupIDPrefix) && !m.Healthy():
		n.wants.Want(coordination.PendingForRemoval, coordination.MemberID(m.Name))
	case m.Learner && h.claims != nil && !slices.ContainsFunc(m.PeerURLs, func(url string) bool { return h.claims[url] }):
		n.wants.Want(coordination.PendingForRemoval, unclaimed(m))
	}
}

// nameless is what the ID begins with of a learner that nobody claims. It may never have had a name.
const nameless = "learner:"

func unclaimed(m system.Member) coordination.MemberID {
	return coordination.MemberID(nameless + m.ID.String())
}

// sort tells the members that stay from those that go, and returns those that stay.
func (n *needs) sort(spec *etcdclusterv1alpha1.EtcdClusterSpec, processes map[string]agent.Member, state *system.State) []string {
	var keep []string
	for id, p := range processes {
		if p.Phase == agent.Deleting || removed(p, state) || slices.Contains(spec.Replace, etcdclusterv1alpha1.MemberID(id)) {
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

// removed tells whether a member was started for the system and is not known to it any more. With the data that it has it
// can never come back.
func removed(p agent.Member, state *system.State) bool {
	if state == nil || !state.Agreed || p.Phase == agent.Prepared {
		return false
	}
	_, is := knownAs(p, state)
	return !is
}

// knownAs is a member as the system knows it: by its name, or by its address as long as it has none.
func knownAs(p agent.Member, state *system.State) (system.Member, bool) {
	if known, is := state.Named(p.ID); is {
		return known, true
	}
	return state.At(p.PeerURL)
}

// want enters what a member needs from the system.
func (n *needs) want(p agent.Member, state *system.State, spec *etcdclusterv1alpha1.EtcdClusterSpec, replaced bool) {
	id := coordination.MemberID(p.ID)
	known, is := knownAs(p, state)
	switch {
	case n.removing[p.ID] && !is:
		n.discard = append(n.discard, p.ID)
	case n.removing[p.ID]:
		n.wants.Want(coordination.PendingForRemoval, id)
		n.wants.Want(coordination.PendingForExclusion, id)
		if replaced {
			n.wants.Want(coordination.ReadyForExclusion, id, p.PeerURL)
		}
	case !is || known.Learner:
		n.wants.Want(coordination.PendingForInclusion, id)
		if canCome(p, state, spec) {
			n.wants.Want(coordination.ReadyForInclusion, id, p.PeerURL)
		}
		if is { // it may not be able to start with what it has
			n.wantRestart(p, spec)
		}
	default:
		n.wantRestart(p, spec)
	}
}

func (n *needs) wantRestart(p agent.Member, spec *etcdclusterv1alpha1.EtcdClusterSpec) {
	if p.Phase != agent.Running || current(p, spec) {
		return
	}
	n.wants.Want(coordination.PendingForRestart, coordination.MemberID(p.ID))
	if armed(p, spec) {
		n.wants.Want(coordination.ReadyForRestart, coordination.MemberID(p.ID))
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

// next is an ID that was not used yet: higher than all others, also of those that only the system knows.
func next(prefix string, processes map[string]agent.Member, state *system.State, also []string) string {
	highest := 0
	for _, id := range slices.AppendSeq(slices.Clone(also), maps.Keys(processes)) {
		highest = max(highest, number(id))
	}
	for _, m := range members(state) {
		if etcdclusterv1alpha1.Prefix(prefix).Owns(etcdclusterv1alpha1.MemberID(m.Name)) {
			highest = max(highest, number(m.Name))
		}
	}
	return fmt.Sprintf("%s-%d", prefix, highest+1)
}

func members(state *system.State) []system.Member {
	if state == nil {
		return nil
	}
	return state.Members
}

// number is what an ID ends with.
func number(id string) int {
	n, err := strconv.Atoi(id[strings.LastIndex(id, "-")+1:])
	if err != nil {
		return 0
	}
	return n
}
