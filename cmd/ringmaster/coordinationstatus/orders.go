package coordinationstatus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// Order is the part of the current step that one participant has to carry out and has not answered.
type Order struct {
	// Prefix is the prefix of the participant, or empty if that is unknown.
	Prefix  string                  `json:"prefix,omitempty"`
	Do      string                  `json:"do"`
	Members []coordination.MemberID `json:"members"`
	// Accepted is set when a process has accepted the order: it may be carrying it out at this moment.
	Accepted bool `json:"accepted"`
	// Alive is set while the accepting process is alive or, if none has accepted it, any process of the participant.
	Alive bool `json:"alive"`
}

// String returns the operation and its members.
func (o *Order) String() string { return o.Do + " " + prose.List(o.Members) }

// orders returns the parts of the current step without an answer, by prefix, the accepted ones first.
func orders(view *coordination.View) []Order {
	if view.Intent == nil || view.Intent.StepIndex >= len(view.Intent.Steps) || !view.Intent.Steps[view.Intent.StepIndex].Order {
		return nil
	}
	step := view.Intent.Steps[view.Intent.StepIndex]
	var all []Order
	for _, id := range step.Members {
		answer := view.Answers[id]
		if answer.Done && answer.Intent == view.Intent.ID && answer.Step == view.Intent.StepIndex {
			continue
		}
		order := Order{Prefix: view.Owner(id), Do: step.Do, Accepted: view.Accepted(id)}
		order.Alive = view.Present(order.Prefix)
		if order.Accepted {
			order.Alive = slices.ContainsFunc(slices.Concat(view.Instances, view.Superseded()), func(i coordination.Instance) bool {
				return i.Session == answer.Session
			})
		}
		index := slices.IndexFunc(all, func(o Order) bool {
			return o.Prefix == order.Prefix && o.Accepted == order.Accepted && o.Alive == order.Alive
		})
		if index < 0 {
			index, all = len(all), append(all, order)
		}
		all[index].Members = append(all[index].Members, id)
	}
	slices.SortStableFunc(all, func(a, b Order) int { return rank(a.Accepted) - rank(b.Accepted) })
	return all
}

func rank(accepted bool) int {
	if accepted {
		return 0
	}
	return 1
}

// Absent is an expected participant that is not alive.
type Absent struct {
	Prefix string `json:"prefix"`
	// By are the names of the participants that expect it.
	By []string `json:"by"`
}

func absent(view *coordination.View) []Absent {
	byPrefix := map[string][]string{}
	for _, participant := range view.Participants {
		for _, prefix := range view.Absent(participant.Expected...) {
			byPrefix[prefix] = append(byPrefix[prefix], participant.Name)
		}
	}
	var all []Absent
	for _, prefix := range slices.Sorted(maps.Keys(byPrefix)) {
		all = append(all, Absent{prefix, byPrefix[prefix]})
	}
	return all
}

// policyConflicts returns the differences between the published policies.
func policyConflicts(view *coordination.View) []string {
	actions := map[coordination.Action]bool{"": true}
	for _, participant := range view.Participants {
		for action := range participant.Policies {
			actions[action] = true
		}
	}
	var all []string
	for _, action := range slices.Sorted(maps.Keys(actions)) {
		if conflict := view.PolicyConflict(action); conflict != "" {
			all = append(all, conflict)
		}
	}
	return all
}

// holderClause returns which participant carries out the intent, as a clause.
func (s *System) holderClause() string {
	if !s.IntentHeld() {
		return "which no participant carries out"
	}
	return fmt.Sprintf("which %s carries out with token %d", s.Lock.Holder, s.Lock.Token)
}

// progress returns the current step of the intent.
func (s *System) progress() string {
	return fmt.Sprintf("step %d of %d", min(s.Intent.StepIndex+1, len(s.Intent.Steps)), len(s.Intent.Steps))
}

// ownStep returns the current step if the holder of the lock carries it out itself, or nil.
func (s *System) ownStep() *coordination.Step {
	if !s.IntentHeld() || s.Intent.StepIndex >= len(s.Intent.Steps) || s.Intent.Steps[s.Intent.StepIndex].Order {
		return nil
	}
	return &s.Intent.Steps[s.Intent.StepIndex]
}

// uncontrolled returns the operations that no command can stop, and their members.
func (s *System) uncontrolled() (lines []string, members []coordination.MemberID) {
	for i := range s.Orders {
		order := &s.Orders[i]
		if !order.Accepted {
			continue
		}
		process := "its process is alive"
		if !order.Alive {
			process = "the session of its process has ended, but the process may hang"
		}
		lines = append(lines, fmt.Sprintf("%s has accepted the order to %s, and may still carry it out under token %d: %s.",
			cmp.Or(order.Prefix, "a participant"), order, s.Intent.Token, process))
		members = append(members, order.Members...)
	}
	if step := s.ownStep(); step != nil {
		lines = append(lines, fmt.Sprintf("%s may be in the middle of the current step, %s, and may still carry it out under token %d.",
			s.Lock.Holder, step, s.Lock.Token))
		members = append(members, step.Members...)
	}
	return lines, members
}

// AbandonPreview returns the consequences of abandoning the intent, which must exist.
func (s *System) AbandonPreview() []string {
	removed := "It removes the intent"
	if s.IntentHeld() {
		removed += fmt.Sprintf(", and the lock of %s: its further writes under token %d are refused", s.Lock.Holder, s.Lock.Token)
	}
	lines := []string{
		fmt.Sprintf("To be abandoned in %s: the %s of %s, %s, at %s.", s.System, s.Intent.Action, ids(s.Intent.Members), s.holderClause(), s.progress()),
		removed + ".",
	}
	running, members := s.uncontrolled()
	lines = append(lines, running...)
	var again []coordination.MemberID
	for _, id := range slices.Sorted(maps.Keys(s.Pending(s.Intent.Action))) {
		if _, part := s.Intent.Members[id]; part {
			again = append(again, id)
		}
	}
	if len(again) == 0 {
		return append(lines, "No member needs this action now.")
	}
	lines = append(lines, fmt.Sprintf("Still pending, and planned again under a higher token: the %s of %s.", s.Intent.Action, prose.List(again)))
	if len(members) > 0 {
		lines = append(lines, fmt.Sprintf("Therefore %s may be disturbed at the same time as the first members of the next plan, unless the system refuses "+
			"older tokens. Make sure that nobody disturbs %[1]s before you continue.", prose.List(members)))
	}
	return lines
}

// BreakLockPreview returns the consequences of breaking the lock, which must exist.
func (s *System) BreakLockPreview() []string {
	lines := []string{
		fmt.Sprintf("To be removed in %s: the lock of %s, with token %d. Its further writes under this token are refused.",
			s.System, s.Lock.Holder, s.Lock.Token),
	}
	if !s.IntentHeld() {
		return append(lines, s.Lock.Holder+" may still be acting under the lock, and the next holder does not wait for it.")
	}
	lines = append(lines, fmt.Sprintf("The next participant continues the %s of %s at %s, under a higher token. It may be %s again: "+
		"to prevent that, put %[4]s on the deny list of another participant first.", s.Intent.Action, ids(s.Intent.Members), s.progress(), s.Lock.Holder))
	running, members := s.uncontrolled()
	lines = append(lines, running...)
	if s.ownStep() != nil {
		lines = append(lines, fmt.Sprintf("Therefore this step may be carried out twice at the same time, unless the system refuses older tokens. Affected members: %s.",
			cmp.Or(prose.List(members), none)))
	} else if len(members) > 0 {
		lines = append(lines, "The next holder also waits for the answer. If no answer can come, abandon the intent instead.")
	}
	return lines
}
