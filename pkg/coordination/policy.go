package coordination

import (
	"fmt"
	"slices"
	"time"
)

// Missing is the policy for a member that is not ready, or whose participant is gone and so could not carry out an order.
type Missing string

const (
	// Wait means to wait for every member and its participant without a limit. It is the default.
	Wait Missing = "Wait"
	// GoOn means to leave a member out after a time. Members that are ready and whose participants are alive are not left out.
	GoOn Missing = "GoOn"
	// LeaveOut means to leave out the members of participants that are gone at once, and to wait for the other members.
	LeaveOut Missing = "LeaveOut"
)

// Failing is the policy for an action after one of its steps has failed.
type Failing string

const (
	// GiveUp means to end the action without the remaining members. It is the default.
	GiveUp Failing = "GiveUp"
	// Continue means to continue with the other members.
	Continue Failing = "Continue"
)

// Policy decides how long an action waits, and which members it leaves out. Each participant publishes its own; if they differ, the more
// careful one applies: the longest quiet window, and a member is left out only if all policies leave it out.
type Policy struct {
	// Quiet is the quiet window: the time without an added or withdrawn need before the action begins. The participant that decides
	// measures it with its own clock, from the moment at which it saw the last change.
	Quiet time.Duration `json:"quiet,omitempty"`
	// Missing is the policy for a member that is not ready or whose participant is gone. It defaults to Wait.
	Missing Missing `json:"missing,omitempty"`
	// After is how long GoOn waits after the last observed change.
	After time.Duration `json:"after,omitempty"`
	// Failing is the policy for the action after a failed step. It defaults to GiveUp.
	Failing Failing `json:"failing,omitempty"`
}

// check returns an error if the policy is invalid. The error names the field.
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

// policies are the policies of all participants for one action. It is never empty.
type policies []Policy

// policies returns the published policies for an action.
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

// quietWindow returns the longest quiet window.
func (p policies) quietWindow() time.Duration {
	var longest time.Duration
	for _, policy := range p {
		longest = max(longest, policy.Quiet)
	}
	return longest
}

// leaveOut reports whether all policies leave out a member, given whether its participant is dead and how long nothing has changed. If
// only time has to pass, retryAfter is the minimum delay.
func (p policies) leaveOut(dead bool, unchangedFor time.Duration) (out bool, retryAfter time.Duration) {
	for _, policy := range p {
		switch {
		case policy.Missing == LeaveOut && dead, policy.Missing == GoOn && unchangedFor >= policy.After:
		case policy.Missing == GoOn:
			retryAfter = max(retryAfter, policy.After-unchangedFor)
		default:
			return false, 0
		}
	}
	return retryAfter == 0, retryAfter
}

// continueAfterFailure reports whether all policies continue with the other members after a failed step.
func (p policies) continueAfterFailure() bool {
	return !slices.ContainsFunc(p, func(policy Policy) bool { return policy.Failing != Continue })
}

// PolicyConflict describes a difference between the published policies for an action, or returns "" if they are the same. An empty
// action stands for all actions without an entry in Settings.Policies.
func (v *View) PolicyConflict(action Action) string {
	all := v.policies(action)
	for i, policy := range all[1:] {
		if policy != all[0] {
			about := "for most actions"
			if action != "" {
				about = "for " + string(action)
			}
			return fmt.Sprintf("%s and %s have different policies %s; the more careful one applies: set both to the same",
				v.Participants[0].Name, v.Participants[i+1].Name, about)
		}
	}
	return ""
}
