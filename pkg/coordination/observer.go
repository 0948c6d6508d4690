package coordination

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// The functions of this file are for programs that only observe a system.

// Systems returns the names of all systems with entries in a store. An empty root means DefaultRoot.
func Systems(ctx context.Context, store kv.Store, root string) ([]string, error) {
	if root == "" {
		root = DefaultRoot
	}
	found, err := store.Read(ctx, root)
	if err != nil {
		return nil, fmt.Errorf("listing the systems: %w", err)
	}
	return systems(found, root), nil
}

func systems(found *kv.Snapshot, root string) []string {
	names := map[string]bool{}
	for key := range found.Entries {
		below, ok := strings.CutPrefix(key, root+"/")
		// Names with a leading dot are reserved for the store.
		if system, rest, _ := strings.Cut(below, "/"); ok && rest != "" && !strings.HasPrefix(system, ".") {
			names[system] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Empty reports whether the store has no entries of the system.
func (v *View) Empty() bool { return len(v.entries) == 0 }

// Pending returns the members that need an action which has not been done to them.
func (v *View) Pending(action Action) Members {
	set, _ := action.Sets()
	pending := maps.Clone(v.Sets[set])
	maps.DeleteFunc(pending, func(id MemberID, _ Member) bool { return v.isDone(set, id) })
	return pending
}

// Actions returns the actions that members need or are ready for.
func (v *View) Actions() []Action {
	needed := map[Action]bool{}
	for set := range v.Sets {
		needed[set.action()] = true
	}
	return sortedKeys(needed)
}

// Superseded returns the live processes that do not work, because a newer process of their participant is alive.
func (v *View) Superseded() []Instance {
	return slices.DeleteFunc(slices.Clone(v.processes), func(process Instance) bool { return slices.Contains(v.Instances, process) })
}

// Incomplete returns the prefixes of participants that have written only a part of their needs. No action begins meanwhile.
func (v *View) Incomplete() []string { return slices.Clone(v.incomplete) }

// InProgress reports whether the intent carries out an action for a member, because of the member's current entry.
func (v *View) InProgress(action Action, id MemberID) bool {
	set, _ := action.Sets()
	member, pending := v.Sets[set][id]
	return pending && v.Intent != nil && v.Intent.Action == action && v.Intent.Members[id] == member.Version
}

// WaitReasons returns the reasons why an action has not begun, as far as an observer can see them. It is empty when no member needs the
// action, and also when all members are ready: then a participant begins the action after the quiet window. The window and the
// policies are not part of the result.
func (v *View) WaitReasons(action Action) []WaitReason {
	pending := v.Pending(action)
	maps.DeleteFunc(pending, func(id MemberID, _ Member) bool { return v.InProgress(action, id) })
	if len(pending) == 0 {
		return nil
	}
	waits := decide(v, pending, policies{{}}, 0, 0, action).Waits
	if v.Lock != nil && v.Intent == nil {
		waits = append(waits, WaitReason{v.Lock.Holder, "it holds the lock"})
	}
	switch {
	case len(v.Instances) == 0:
		waits = append(waits, WaitReason{Reason: "a participant: none is alive"})
	case !slices.ContainsFunc(v.Instances, func(i Instance) bool { return v.Denied[i.Name] == nil }):
		waits = append(waits, WaitReason{Reason: "a participant that may hold the lock: all that are alive are on the deny list"})
	}
	return waits
}

// Retry returns how often in a row an action was given up, up to now, and the delay from the end of the last attempt to the next
// one. The delay is at least the quiet window. Both are 0 if the last attempt succeeded.
func (v *View) Retry(action Action) (failures int, delay time.Duration) {
	if failures = v.failures(action); failures == 0 {
		return 0, 0
	}
	return failures, max(v.policies(action).quietWindow(), retryAfter(failures))
}

// Unanswered returns the current step if it is an order with a missing answer, and the prefix of the participant that has to
// answer, if it is known. The step is nil if no answer is missing.
func (v *View) Unanswered() (step *Step, prefix string) {
	step = v.Intent.step()
	if step == nil || !step.Order {
		return nil, ""
	}
	for _, id := range step.Members {
		if !v.Answers[id].completes(v.Intent) {
			return step, v.Owner(id)
		}
	}
	return nil, ""
}

// Accepted reports whether the participant of a member has accepted the current order and not yet answered it: it may be carrying the
// order out at this moment.
func (v *View) Accepted(id MemberID) bool { return v.Answers[id].pending(v.Intent) }

// acceptedBy returns the members for which the participant with a prefix has accepted the current order and not answered it.
func (v *View) acceptedBy(prefix string) []MemberID {
	var accepted []MemberID
	if step := v.Intent.step(); step == nil || step.Together && !v.Intent.AllAccepted {
		return nil // no participant carries it out before all have accepted it
	}
	for key := range v.entries {
		if segments := v.keys.split(key); len(segments) == 3 && segments[0] == kindAnswers && segments[1] == prefix && v.Accepted(MemberID(segments[2])) {
			accepted = append(accepted, MemberID(segments[2]))
		}
	}
	slices.Sort(accepted)
	return accepted
}

// Owner returns the prefix of a member's participant: from the member's entries, or else, since IDs begin with the prefix, from its
// ID. It is empty if neither is conclusive.
func (v *View) Owner(id MemberID) string {
	for _, set := range sortedKeys(v.Sets) {
		if member, ok := v.Sets[set][id]; ok {
			return member.Prefix
		}
	}
	for key := range v.entries {
		if segments := v.keys.split(key); len(segments) == 3 && segments[0] == kindAnswers && segments[2] == string(id) {
			return segments[1]
		}
	}
	owner := ""
	guess := func(prefix string) {
		if strings.HasPrefix(string(id), prefix+"-") && len(prefix) > len(owner) {
			owner = prefix
		}
	}
	for _, instance := range v.Instances {
		guess(instance.Prefix)
	}
	for _, participant := range v.Participants { // also one that is not alive
		guess(participant.Prefix)
	}
	return owner
}

// DeadParticipants returns the prefixes of participants that are not alive and have not left: the store still has entries of them, at
// least their settings.
func (v *View) DeadParticipants() []string {
	left := map[string]bool{}
	for key := range v.entries {
		if segments := v.keys.split(key); len(segments) > 1 && isOwnedKey(segments) && !v.Present(segments[1]) {
			left[segments[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(left))
}

// isOwnedKey reports whether a key, given by its segments, belongs to the participant with the prefix in it.
func isOwnedKey(segments []string) bool {
	switch segments[0] {
	case kindChanges, kindParticipants:
		return len(segments) == 2
	case kindDenied, kindAnswers:
		return len(segments) == 3
	}
	return len(segments) == 3 && Set(segments[0]).known()
}
