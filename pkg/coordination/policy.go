package coordination

import (
	"fmt"
	"slices"
	"time"
)

// Missing says what becomes of a member that is not ready, or whose participant is gone: nobody would carry out what is done to
// it.
type Missing string

const (
	// Wait means to wait for every member and its participant, however long it takes. It is the default.
	Wait Missing = "Wait"
	// GoOn means to act after a time on those that are ready, and whose participants are alive.
	GoOn Missing = "GoOn"
	// LeaveOut means to leave out the members of participants that are gone, and to wait for the others.
	LeaveOut Missing = "LeaveOut"
)

// Failing says what becomes of an action when a step of it has failed.
type Failing string

const (
	// GiveUp means to end the action: the members that are left do not follow. It is the default.
	GiveUp Failing = "GiveUp"
	// Continue means to go on with the other members.
	Continue Failing = "Continue"
)

// Policy says how patient an action is. Each participant publishes its own; where they differ, the more careful one counts:
// the longest quiet window, and a member is left out only if all of them leave it out.
type Policy struct {
	// Quiet is how long no member may have been added to those that are pending, or withdrawn, before the action
	// begins. It is measured by the clock of the participant that decides, from when it saw the change.
	Quiet time.Duration `json:"quiet,omitempty"`
	// Missing says what becomes of a member that is not ready or whose participant is gone, Wait if it is not set.
	Missing Missing `json:"missing,omitempty"`
	// After is how long GoOn waits, after the last change that was seen.
	After time.Duration `json:"after,omitempty"`
	// Failing says what becomes of the action when a step has failed, GiveUp if it is not set.
	Failing Failing `json:"failing,omitempty"`
}

// check says what is wrong with a policy, and where it is.
func (p Policy) check(where string) error {
	switch p.Missing {
	case "", Wait, LeaveOut:
		if p.After != 0 {
			return fmt.Errorf("%s.After is %s, but Missing is not %s: set Missing to %[3]s, or remove After", where, p.After, GoOn)
		}
	case GoOn:
		if p.After <= 0 {
			return fmt.Errorf("%s.Missing is %s, but After is %s: set After to how long to wait", where, GoOn, p.After)
		}
	default:
		return fmt.Errorf("%s.Missing %q is unknown: use %s, %s or %s", where, p.Missing, Wait, GoOn, LeaveOut)
	}
	if !slices.Contains([]Failing{"", GiveUp, Continue}, p.Failing) {
		return fmt.Errorf("%s.Failing %q is unknown: use %s or %s", where, p.Failing, GiveUp, Continue)
	}
	if p.Quiet < 0 {
		return fmt.Errorf("%s.Quiet is %s: set it to 0 or more", where, p.Quiet)
	}
	return nil
}

// policies are those of all participants for one action. It is not empty.
type policies []Policy

// policies returns what the participants have published about an action.
func (v *View) policies(action Action) policies {
	var all policies
	for _, participant := range v.Participants {
		policy, own := participant.Policies[action]
		if !own {
			policy = participant.Policy
		}
		all = append(all, policy)
	}
	if len(all) == 0 {
		return policies{{}}
	}
	return all
}

// quiet is the longest quiet window.
func (p policies) quiet() time.Duration {
	var longest time.Duration
	for _, policy := range p {
		longest = max(longest, policy.Quiet)
	}
	return longest
}

// leaveOut tells whether all leave out a member, given whether its participant is gone and for how long nothing has
// changed, and how long to wait at least if only time has to pass.
func (p policies) leaveOut(gone bool, calm time.Duration) (out bool, again time.Duration) {
	for _, policy := range p {
		switch {
		case policy.Missing == LeaveOut && gone, policy.Missing == GoOn && calm >= policy.After:
		case policy.Missing == GoOn:
			again = max(again, policy.After-calm)
		default:
			return false, 0
		}
	}
	return again == 0, again
}

// goesOn tells whether all go on with the other members when a step has failed.
func (p policies) goesOn() bool {
	return !slices.ContainsFunc(p, func(policy Policy) bool { return policy.Failing != Continue })
}

// PolicyConflict names what participants have published differently, so that people see which of it counts. It is empty when
// they agree. Without an action it is about those that nobody has a policy of its own for.
func (v *View) PolicyConflict(action Action) string {
	all := v.policies(action)
	for i, policy := range all[1:] {
		if policy != all[0] {
			about := "for most actions"
			if action != "" {
				about = "for " + string(action)
			}
			return fmt.Sprintf("%s and %s have different policies %s; the more careful one counts: give both the same",
				v.Participants[0].Name, v.Participants[i+1].Name, about)
		}
	}
	return ""
}
