package view

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
)

// RegionChanges returns a line for each change from one state to a later one.
func RegionChanges(before, after Regions) []string {
	log := eventLines(before.Events, after.Events)
	log.members(before, after)
	log.coordination(before.Coordination, after.Coordination, after.Now)
	return log.lines
}

func (l *changeLog) members(before, after Regions) {
	known := map[string]Member{}
	for _, region := range before.Regions {
		for _, member := range region.Members {
			known[member.ID] = member
		}
	}
	for _, region := range after.Regions {
		for _, member := range region.Members {
			old, existed := known[member.ID]
			delete(known, member.ID)
			if old.Phase != member.Phase {
				l.add(after.Now, "%s: %s → %s", sanitize(member.ID), cmp.Or(sanitize(old.Phase), "new"), sanitize(member.Phase))
			}
			if existed && old.PID != member.PID && old.PID != 0 && member.PID != 0 {
				l.add(after.Now, "%s: restarted, process %d → %d", sanitize(member.ID), old.PID, member.PID)
			}
		}
	}
	for _, region := range before.Regions {
		for _, member := range region.Members {
			if _, removed := known[member.ID]; removed {
				l.add(after.Now, "%s: removed", sanitize(member.ID))
			}
		}
	}
	if leader := after.leader(); leader != "" && leader != before.leader() {
		l.add(after.Now, "%s leads", sanitize(leader))
	}
}

func (l *changeLog) coordination(before, after coordinationstatus.Summary, now time.Time) {
	if before.Problem != after.Problem && after.Problem != "" {
		l.add(now, "coordination unknown: %s", sanitize(after.Problem))
	}
	if before.Holder != after.Holder && after.Holder != "" {
		l.add(now, "%s holds the lock with token %d", sanitize(after.Holder), after.Token)
	}
	if plan := after.Plan; plan != nil && plan.At < len(plan.Steps) && (before.Plan == nil || before.Plan.Action != plan.Action || before.Plan.At != plan.At) {
		note := ""
		if plan.Steps[plan.At].Note != "" {
			note = ": " + sanitize(plan.Steps[plan.At].Note)
		}
		l.add(now, "%s, step %d of %d: %s%s", sanitize(plan.Action), plan.At+1, len(plan.Steps), sanitize(plan.Steps[plan.At].What), note)
	}
	if before.Done != after.Done && after.Done != "" {
		l.add(now, "%s", sanitize(after.Done))
	}
}

// RegionsSummary returns the number of voting members, the leader, and the state that clients observe.
func RegionsSummary(state Regions) string {
	ready, desired := state.voters()
	return fmt.Sprintf("%d of %d members voting, leader %s; client: %d failed writes, %s",
		ready, desired, cmp.Or(sanitize(state.leader()), "none"), state.Clients.Failed, leaderChanges(state.Clients.Elections))
}
