package coordination

import (
	"fmt"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/demo/view"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// Agreement is what the live view shows of a system.
func (s *System) Agreement() view.Agreement {
	a := view.Agreement{Roles: map[string]string{}}
	for _, role := range s.Roles {
		a.Roles[role.Instance] = role.Does
	}
	if s.Lock != nil {
		a.Holder, a.Token, a.Since = s.Lock.Holder, s.Lock.Token, s.Lock.Since
	}
	if i := s.Intent; i != nil {
		a.Plan = &view.Plan{Action: fmt.Sprintf("%s of %s", i.Action, ids(i.Members)), By: i.By, Since: i.Since, At: i.At}
		for n, step := range i.Steps {
			shown := view.Step{What: step.String()}
			if n == i.At {
				shown.Note = awaited(s, step)
			}
			a.Plan.Steps = append(a.Plan.Steps, shown)
		}
	}
	for i := range s.Actions {
		action := &s.Actions[i]
		for _, member := range action.Members {
			a.Pending = append(a.Pending, view.Pending{Member: string(member.ID), Action: string(action.Action), State: string(member.State)})
		}
		a.Waits = append(a.Waits, action.Outlook())
	}
	for i := range s.Left {
		if left := &s.Left[i]; len(left.Members) > 0 {
			a.Waits = append(a.Waits, fmt.Sprintf("no process of %s is alive; left behind: %s", left.Prefix, left.Says()))
		}
	}
	if len(s.Done) > 0 {
		last := s.Done[0]
		outcome := "done"
		if last.Failure != "" {
			outcome = "given up: " + last.Failure
		}
		a.Done = fmt.Sprintf("%s of %s, by %s with token %d, %s", last.Action, ids(last.Members), last.By, last.Token, outcome)
		if took, known := took(&last); known {
			a.Done += " after " + took.Round(100*time.Millisecond).String()
		}
	}
	return a
}

// took is how long something took, if it is known: when another instance has gone on with it, its beginning is by one clock
// and its end by another.
func took(done *coordination.Done) (time.Duration, bool) {
	return max(0, done.Until.Sub(done.Since)), done.ID == done.Token
}
