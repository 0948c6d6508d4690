package view

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
)

// TellRegions says in lines what has happened from one state to a later one, for who does not see frames.
func TellRegions(before, after Regions) []string {
	var lines []string
	say := func(at time.Time, format string, args ...any) {
		lines = append(lines, at.Format(time.TimeOnly)+"  "+fmt.Sprintf(format, args...))
	}
	seen := 0
	if n := len(before.Events); n > 0 {
		seen = before.Events[n-1].Number
	}
	for _, event := range after.Events {
		if event.Number > seen {
			say(event.At, "%s: %s", clean(event.About), clean(event.What))
		}
	}
	tellMembers(before, after, say)
	tellAgreement(before.Agreement, after.Agreement, after.Now, say)
	return lines
}

func tellMembers(before, after Regions, say func(time.Time, string, ...any)) {
	was := map[string]Member{}
	for _, region := range before.Regions {
		for _, member := range region.Members {
			was[member.ID] = member
		}
	}
	for _, region := range after.Regions {
		for _, member := range region.Members {
			old, known := was[member.ID]
			delete(was, member.ID)
			if old.Phase != member.Phase {
				say(after.Now, "%s: %s → %s", clean(member.ID), cmp.Or(clean(old.Phase), "new"), clean(member.Phase))
			}
			if known && old.PID != member.PID && old.PID != 0 && member.PID != 0 {
				say(after.Now, "%s: another process, %d → %d", clean(member.ID), old.PID, member.PID)
			}
		}
	}
	for _, region := range before.Regions {
		for _, member := range region.Members {
			if _, gone := was[member.ID]; gone {
				say(after.Now, "%s: is gone", clean(member.ID))
			}
		}
	}
	if now := after.leader(); now != "" && now != before.leader() {
		say(after.Now, "%s leads", clean(now))
	}
}

func tellAgreement(before, after coordinationstatus.Summary, now time.Time, say func(time.Time, string, ...any)) {
	if before.Problem != after.Problem && after.Problem != "" {
		say(now, "what the operators agree on is not known: %s", clean(after.Problem))
	}
	if before.Holder != after.Holder && after.Holder != "" {
		say(now, "%s has the lock, with token %d", clean(after.Holder), after.Token)
	}
	if plan := after.Plan; plan != nil && plan.At < len(plan.Steps) && (before.Plan == nil || before.Plan.Action != plan.Action || before.Plan.At != plan.At) {
		note := ""
		if plan.Steps[plan.At].Note != "" {
			note = ": " + clean(plan.Steps[plan.At].Note)
		}
		say(now, "%s, step %d of %d: %s%s", clean(plan.Action), plan.At+1, len(plan.Steps), clean(plan.Steps[plan.At].What), note)
	}
	if before.Done != after.Done && after.Done != "" {
		say(now, "%s", clean(after.Done))
	}
}

// CountRegions says how the system is doing.
func CountRegions(state Regions) string {
	ready, wanted := state.votes()
	return fmt.Sprintf("%d of %d members vote, %s leads; a client's writes: %d failed, %s",
		ready, wanted, cmp.Or(clean(state.leader()), "nobody"), state.Clients.Failed, changes(state.Clients.Elections))
}
