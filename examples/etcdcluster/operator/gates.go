package operator

import (
	"fmt"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
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
		if m, known := r.find(earlier.Member, earlier.With[withPeer]); known && !m.Healthy() {
			return fmt.Sprintf("%s is not well after its %s: %s", earlier.Member, earlier.Do, m.Health.Problem)
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
				return fmt.Sprintf("%s is still a learner", other.Name)
			}
		}
	case plan.Restart:
		if known && !r.state.Spares(m.ID) && len(r.state.Voters()) > 1 {
			return fmt.Sprintf("without %s the system has no quorum", step.Member)
		}
		return r.leads(step)
	case plan.Remove:
		if known && !r.state.SparesForever(m.ID) {
			return fmt.Sprintf("without %s the system has no quorum", step.Member)
		}
		return r.leads(step)
	case plan.MoveLeader:
		if known && !m.Healthy() {
			return fmt.Sprintf("%s is not well and cannot lead: %s", step.Member, m.Health.Problem)
		}
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
