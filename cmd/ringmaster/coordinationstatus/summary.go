package coordinationstatus

import (
	"fmt"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// Summary is the state of a system in a few words.
type Summary struct {
	// Problem is the reason why the state is unknown, or empty.
	Problem string
	// Roles are the current work of each participant, by name.
	Roles map[string]string
	// Holder holds the lock since Since, with the fencing token Token. It is empty if the lock is free.
	Holder string
	Token  int64
	Since  time.Time
	// Plan is the action in progress, or nil.
	Plan *PlanSummary
	// Pending are the members that an action is pending for.
	Pending []PendingSummary
	// Waits has the wait reasons of each action, as one sentence.
	Waits []string
	// Done is the last action that ended, with its outcome.
	Done string
}

// PlanSummary is an action in progress.
type PlanSummary struct {
	// Action names the action and its members, By the participant that carries it out.
	Action, By string
	Since      time.Time
	Steps      []StepSummary
	// At is the index of the current step.
	At int
}

// StepSummary is a step of a plan. Note names the participants that have to carry it out, if any have.
type StepSummary struct{ What, Note string }

// PendingSummary is a member that an action is pending for.
type PendingSummary struct{ Member, Action, State string }

// Summary returns the summary of the system.
func (s *System) Summary() Summary {
	a := Summary{Roles: map[string]string{}}
	for _, role := range s.Roles {
		a.Roles[role.Participant] = role.Does
	}
	if s.Lock != nil {
		a.Holder, a.Token, a.Since = s.Lock.Holder, s.Lock.Token, s.Lock.Since
	}
	if i := s.Intent; i != nil {
		a.Plan = &PlanSummary{Action: fmt.Sprintf("%s of %s", i.Action, ids(i.Members)), By: i.Holder, Since: i.Since, At: i.StepIndex}
		for n, step := range i.Steps {
			shown := StepSummary{What: step.String()}
			if n == i.StepIndex {
				shown.Note = waitingFor(s, step)
			}
			a.Plan.Steps = append(a.Plan.Steps, shown)
		}
	}
	for i := range s.Actions {
		action := &s.Actions[i]
		for _, member := range action.Members {
			a.Pending = append(a.Pending, PendingSummary{Member: string(member.ID), Action: string(action.Action), State: string(member.State)})
		}
		a.Waits = append(a.Waits, action.Outlook())
	}
	for i := range s.Dead {
		if dead := &s.Dead[i]; len(dead.Members) > 0 {
			a.Waits = append(a.Waits, fmt.Sprintf("no process of %s is alive; left behind: %s", dead.Prefix, dead.Entries()))
		}
	}
	if len(s.DoneRecords) > 0 {
		last := s.DoneRecords[0]
		outcome := "done"
		if last.Failure != "" {
			outcome = "given up: " + last.Failure
		}
		a.Done = fmt.Sprintf("%s of %s, by %s with token %d, %s", last.Action, ids(last.Members), last.Holder, last.Token, outcome)
		if took, known := durationOf(&last); known {
			a.Done += " after " + took.Round(100*time.Millisecond).String()
		}
	}
	return a
}

// durationOf returns the duration of an action, if it is known: if another participant has continued the action, its beginning
// is by one clock and its end by another.
func durationOf(done *coordination.DoneRecord) (time.Duration, bool) {
	return max(0, done.Until.Sub(done.Since)), done.ID == done.Token
}
