package operator

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

const (
	// soon is when to look again while something is being done.
	soon = 200 * time.Millisecond
	// later is when to look again although nobody has said anything: members can die without a word.
	later = 2 * time.Second
)

// round is one reconcile of an EtcdCluster: what was seen, in this order, and what came of it.
type round struct {
	*part
	agent   agentOf
	cluster *etcdclusterv1alpha1.EtcdCluster
	// view is what the operators have said. In local mode it is empty.
	view *coordination.View
	// processes are the region's own, by ID.
	processes map[string]agent.Member
	// state is how the system is, or nil if nobody answers: then unseen says why.
	state  *system.State
	unseen error
	// needs are what this region wants from the system.
	needs needs

	// waiting says what this operator waits for, again when to look, and acting what it or another one does.
	waiting string
	acting  string
	again   time.Duration
	denied  bool
	// moved is when something has begun, gone on or ended in this round: what is to be done next is not decided on what was
	// seen before.
	moved bool
	// failed is what went wrong that keeps from nothing else.
	failed error
	note   func(reason, message string)
}

// agentOf is what a round asks of the region's agent.
type agentOf interface {
	Members(ctx context.Context) ([]agent.Member, error)
	Prepare(ctx context.Context, id, system string) (agent.Member, error)
	SetArgs(ctx context.Context, id string, args map[string]string) (agent.Member, error)
	SetVersion(ctx context.Context, id, version string) (agent.Member, error)
	Start(ctx context.Context, id string, order agent.Order, launch agent.Launch) (agent.Member, error)
	Restart(ctx context.Context, id string, order agent.Order) (agent.Member, error)
	Delete(ctx context.Context, id string, order agent.Order) error
}

func (r *round) global() bool {
	return r.cluster.Spec.AutomationOptions.Mode() == etcdclusterv1alpha1.SynchronizationGlobal
}

// wait notes what has to happen first.
func (r *round) wait(reason string, again time.Duration) {
	if r.waiting == "" {
		r.waiting = reason
	}
	r.lookIn(again)
}

func (r *round) lookIn(again time.Duration) {
	if again > 0 && (r.again == 0 || again < r.again) {
		r.again = again
	}
}

// mine are the IDs of the region's members.
func (r *round) mine() []coordination.MemberID {
	var ids []coordination.MemberID
	for id := range r.processes {
		ids = append(ids, coordination.MemberID(id))
	}
	slices.Sort(ids)
	return ids
}

// find returns a member of the system by its name, or by its address as long as it has none.
func (r *round) find(id coordination.MemberID, peerURL string) (system.Member, bool) {
	if r.state == nil {
		return system.Member{}, false
	}
	if number, is := strings.CutPrefix(string(id), nameless); is {
		number, err := system.ParseID(number)
		found, known := r.state.Member(number)
		return found, err == nil && known && found.Learner // one that votes by now is somebody's
	}
	if found, is := r.state.Named(string(id)); is {
		return found, true
	}
	if peerURL == "" {
		peerURL = r.processes[string(id)].PeerURL
	}
	if found, is := r.state.At(peerURL); is && peerURL != "" {
		return found, true
	}
	return system.Member{}, false
}

// planned is what plans are made for.
func (r *round) planned() plan.Cluster {
	var c plan.Cluster
	for _, m := range r.state.Voters() {
		c.Voters = append(c.Voters, coordination.MemberID(m.Name))
		if m.ID == r.state.Leader {
			c.Leader = coordination.MemberID(m.Name)
		}
		if !m.Healthy() {
			c.Sick = append(c.Sick, coordination.MemberID(m.Name))
		}
	}
	for _, set := range []coordination.Set{coordination.PendingForRemoval, coordination.PendingForExclusion, coordination.PendingForRestart} {
		for id := range r.wanted(set) {
			c.Leaving = append(c.Leaving, id)
		}
	}
	return c
}

// wanted are the entries of a set: of all operators, or in local mode of this one, which has told nobody.
func (r *round) wanted(set coordination.Set) coordination.Members {
	if r.global() {
		return r.view.Sets[set]
	}
	members := coordination.Members{}
	for id, addresses := range r.needs.wants[set] {
		members[id] = coordination.Member{Prefix: string(r.cluster.Spec.ProcessGroupIDPrefix), Addresses: addresses}
	}
	return members
}

// look reads everything that a round is about.
func (r *round) look(ctx context.Context) error {
	r.view = &coordination.View{}
	if r.global() && r.c != nil {
		view, err := r.c.View(ctx)
		if err != nil {
			return inStore(err)
		}
		r.view = view
	}
	return nil
}
