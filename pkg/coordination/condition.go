package coordination

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionCoordinated is the type of the condition that Condition returns.
const ConditionCoordinated = "Coordinated"

// The reasons of the condition. It is false for all but the first four.
const (
	ReasonSettled     = "Settled"     // no member needs an action
	ReasonWaiting     = "Waiting"     // an action waits; the message has the reasons
	ReasonActing      = "Acting"      // an action is being carried out
	ReasonLocal       = "Local"       // the participant is in local mode
	ReasonMixedModes  = "MixedModes"  // a participant has not joined: it is in local mode, or was never started
	ReasonNotAlive    = "NotAlive"    // a participant has joined, but no process of it is alive
	ReasonDenied      = "Denied"      // the participant may not hold the lock
	ReasonSuperseded  = "Superseded"  // a newer process of the participant works
	ReasonPrefixTaken = "PrefixTaken" // another participant has the prefix
	ReasonFailed      = "Failed"      // Reconcile has returned any other error
)

// Condition returns the outcome of a Reconcile as a condition. All are the prefixes of the participants that should take part: the
// condition is false while one of them is missing.
func (c *Coordinator) Condition(result *Result, err error, all ...string) metav1.Condition {
	condition := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: ConditionCoordinated, Status: status, Reason: reason, Message: message}
	}
	intent, global := result.Intent, c.currentSettings().Mode == Global
	dead, notJoined := result.View.missing(all...)
	switch {
	case errors.Is(err, ErrPrefixTaken):
		return condition(metav1.ConditionFalse, ReasonPrefixTaken, err.Error())
	case err != nil:
		return condition(metav1.ConditionFalse, ReasonFailed, err.Error())
	case result.Superseded:
		return condition(metav1.ConditionFalse, ReasonSuperseded, "A newer process of this participant is active.")
	case result.View.Denied[c.name] != nil:
		return condition(metav1.ConditionFalse, ReasonDenied, "This participant is on a deny list and cannot hold the lock.")
	case global && len(dead) > 0:
		return condition(metav1.ConditionFalse, ReasonNotAlive, missingMessage(dead, notJoined))
	case global && len(notJoined) > 0:
		return condition(metav1.ConditionFalse, ReasonMixedModes, missingMessage(dead, notJoined))
	case intent.step() != nil && global:
		return condition(metav1.ConditionTrue, ReasonActing, fmt.Sprintf(
			"%s by %s, step %d of %d: %s", intent.Action, intent.Holder, intent.StepIndex+1, len(intent.Steps), intent.step()))
	case !global:
		return condition(metav1.ConditionTrue, ReasonLocal, "This participant is in local mode: it acts on its own members without agreement.")
	case len(result.WaitReasons) > 0:
		return condition(metav1.ConditionTrue, ReasonWaiting, result.WaitSummary())
	}
	return condition(metav1.ConditionTrue, ReasonSettled, "No member needs an action.")
}

// missing returns those of the given prefixes whose participants have joined and are not alive, and those that have not joined.
func (v *View) missing(all ...string) (dead, notJoined []string) {
	for _, prefix := range v.Absent(all...) {
		if v.hasJoined(prefix) {
			dead = append(dead, prefix)
		} else {
			notJoined = append(notJoined, prefix)
		}
	}
	return dead, notJoined
}

func missingMessage(dead, notJoined []string) string {
	var all []string
	if len(dead) > 0 {
		all = append(all, fmt.Sprintf("No process of these participants is alive: %s.", strings.Join(dead, ", ")))
	}
	if len(notJoined) > 0 {
		all = append(all, fmt.Sprintf("These participants have not joined, because they are in local mode or were not started: %s.", strings.Join(notJoined, ", ")))
	}
	return strings.Join(all, " ")
}

var duration = regexp.MustCompile(`\b([0-9.]+(h|m|s|ms|µs|ns))+\b`)

// WaitSummary returns WaitReasons as one line, without duplicates. Durations are rounded up to seconds, so that a status with
// them is not updated more often.
func (r *Result) WaitSummary() string {
	var all []string
	for _, reason := range r.WaitReasons {
		if text := reason.String(); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return duration.ReplaceAllStringFunc(strings.Join(all, "; "), func(text string) string {
		left, err := time.ParseDuration(text)
		if err != nil {
			return text
		}
		return (left + time.Second - 1).Truncate(time.Second).String()
	})
}

// IsWarning reports whether the event is of type Warning, as opposed to Normal, as a Kubernetes event.
func (e Event) IsWarning() bool {
	return slices.Contains([]string{"Failed", "Fenced", "GaveUp", "LeftOut", "LockLost", "SteppedDown"}, e.Reason)
}

// View returns the needs as the View of a system with only this participant, so that a System can plan in local mode as in global
// mode.
func (n Needs) View(prefix string) *View {
	view := &View{Sets: map[Set]Members{}}
	for _, need := range n.Pending {
		pending, ready := need.Action.Sets()
		member := Member{Prefix: prefix, Addresses: need.Addresses}
		for set, included := range map[Set]bool{pending: true, ready: need.Ready} {
			if view.Sets[set] == nil && included {
				view.Sets[set] = Members{}
			}
			if included {
				view.Sets[set][need.Member] = member
			}
		}
	}
	return view
}
