package operator

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

var removal = concern{
	action: coordination.Removal, plan: (*round).planRemoval,
	steps: map[string]step{plan.Stop: (*round).ordered},
}

// remove ends what the system does without, and makes it do without those that nobody is left to end.
func (r *round) remove(ctx context.Context) error { return r.work(ctx, removal) }

// planRemoval removes the members of regions that do not return. The others go in good order.
func (r *round) planRemoval(ready coordination.Members) []coordination.Step {
	maps.DeleteFunc(ready, func(id coordination.MemberID, _ coordination.Member) bool { return !r.isLost(id) || r.isSomebodys(id) })
	return plan.ForLost(r.planned(), slices.Collect(maps.Keys(ready)))
}

// lostFirst is a member that nobody is left to end and that the system can do without now. It is removed before anything
// else is begun.
func (r *round) lostFirst() coordination.MemberID {
	for _, id := range slices.Sorted(maps.Keys(r.wanted(coordination.PendingForRemoval))) {
		if !r.isLost(id) {
			continue
		}
		if m, known := r.find(id, ""); known && r.state.HasQuorum() && r.state.SparesForever(m.ID) {
			return id
		}
	}
	return ""
}

// isSomebodys tells whether a learner that a region took for nobody's is none any more, or one that another region lets
// come.
func (r *round) isSomebodys(id coordination.MemberID) bool {
	if !strings.HasPrefix(string(id), nameless) {
		return false
	}
	m, known := r.find(id, "")
	return !known || slices.ContainsFunc(m.PeerURLs, func(url string) bool { return r.heardClaims()[url] })
}

// heardClaims are the addresses of all members that are to come, of all regions.
func (r *round) heardClaims() map[string]bool {
	claims := map[string]bool{}
	for _, entry := range r.view.Sets[coordination.ReadyForInclusion] {
		for _, address := range entry.Addresses {
			claims[address] = true
		}
	}
	for _, p := range r.processes {
		claims[p.PeerURL] = true
	}
	return claims
}

// isLost tells whether a member that is to be removed has nobody who would end it.
func (r *round) isLost(id coordination.MemberID) bool {
	_, excluded := r.wanted(coordination.PendingForExclusion)[id]
	return !excluded
}
