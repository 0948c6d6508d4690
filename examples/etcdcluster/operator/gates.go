package operator

import (
	"cmp"
	"fmt"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// closed says why a step may not begin now, or nothing. The members that were touched before have to be well
// again, and the system has to keep its quorum without the one that is next.
func (r *round) closed(step coordination.Step, before []coordination.Step) string {
	switch {
	case r.state == nil:
		return "no member of the system answers"
	case !r.state.HasQuorum():
		return "the system has no quorum"
	case r.state.Leader == 0:
		return "the system has no leader"
	}
	for _, earlier := range before {
		if earlier.Do != plan.Restart && earlier.Do != plan.Promote {
			continue
		}
		if m, known := r.find(earlier.Member, earlier.With[withPeer]); known && unwell(m) != "" {
			return fmt.Sprintf("%s is not well after its %s: %s", earlier.Member, earlier.Do, unwell(m))
		}
	}
	return r.closedFor(step)
}

func (r *round) closedFor(step coordination.Step) string {
	m, known := r.find(step.Member, step.With[withPeer])
	switch step.Do {
	case plan.AddLearner:
		for _, other := range r.state.Members {
			if other.Learner && (!known || other.ID != m.ID) {
				return cmp.Or(other.Name, "the member "+other.ID.String()) + " is still a learner"
			}
		}
	case plan.Restart, plan.Remove:
		if reason := r.needed(step); reason != "" {
			return reason
		}
		return r.leads(step)
	case plan.MoveLeader:
		if known && !m.Healthy() {
			return fmt.Sprintf("%s is not well and cannot lead: %s", step.Member, m.Health.Problem)
		}
	}
	return ""
}

// closedToObey says why an order may not be carried out now, or nothing. It may have been given a while ago, when the system
// was better.
func (r *round) closedToObey(order *coordination.Order) string {
	switch {
	case order.Do == plan.Restart:
		return r.closed(order.Step, nil)
	case order.Do == plan.Start && (r.state == nil || !r.state.Agreed):
		return "the members of the system are not known"
	}
	return ""
}

// unwell says what is wrong with a member, or nothing. One that is far behind is not yet what it was before it was
// disturbed.
func unwell(m system.Member) string {
	switch {
	case m.Health.Problem != "":
		return m.Health.Problem
	case !m.Healthy():
		return "it follows no leader"
	case !m.CaughtUp():
		return fmt.Sprintf("it is %d entries behind", m.Health.Lag)
	}
	return ""
}

// closedToBegin says why a plan may not begin now, or nothing. To move the leader for something that cannot be done then
// would be of no use, and who waits in the middle of a plan keeps others from what would help.
func (r *round) closedToBegin(steps []coordination.Step) string {
	if reason := r.closed(steps[0], nil); reason != "" {
		return reason
	}
	for _, step := range steps {
		if step.Do != plan.MoveLeader {
			return r.needed(step)
		}
	}
	return ""
}

// needed says that the system has no quorum without a member.
func (r *round) needed(step coordination.Step) string {
	m, known := r.find(step.Member, step.With[withPeer])
	spares := true
	switch {
	case !known:
	case step.Do == plan.Restart:
		spares = r.state.Spares(m.ID) || len(r.state.Voters()) == 1
	case step.Do == plan.Remove:
		spares = r.state.SparesForever(m.ID)
	}
	if !spares {
		return fmt.Sprintf("without %s the system has no quorum", step.Member)
	}
	return ""
}

// leads says that a member has to give its part away first.
func (r *round) leads(step coordination.Step) string {
	if m, known := r.find(step.Member, ""); known && m.ID == r.state.Leader && len(r.state.Voters()) > 1 {
		return fmt.Sprintf("%s leads", step.Member)
	}
	return ""
}
