package coordination

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// The functions of this file are for people and programs that are no instance and only look.

// Systems are the names of all systems of which something is in a store. Root is DefaultRoot if it is empty.
func Systems(ctx context.Context, store kv.Store, root string) ([]string, error) {
	if root == "" {
		root = DefaultRoot
	}
	found, err := store.Read(ctx, root)
	if err != nil {
		return nil, fmt.Errorf("reading which systems there are: %w", err)
	}
	return systems(found, root), nil
}

func systems(found *kv.Snapshot, root string) []string {
	names := map[string]bool{}
	for key := range found.Entries {
		below, is := strings.CutPrefix(key, root+"/")
		// What begins with a dot is a store's own.
		if system, rest, _ := strings.Cut(below, "/"); is && rest != "" && !strings.HasPrefix(system, ".") {
			names[system] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Empty tells whether nobody has ever said anything of the system in this store.
func (v *View) Empty() bool { return len(v.entries) == 0 }

// Pending are the members that an action is wanted for and has not been done to.
func (v *View) Pending(action Action) Members {
	set, _ := action.Sets()
	pending := maps.Clone(v.Sets[set])
	maps.DeleteFunc(pending, func(id MemberID, _ Member) bool { return v.acted(set, id) })
	return pending
}

// Actions are those that somebody needs or is ready for.
func (v *View) Actions() []Action {
	needed := map[Action]bool{}
	for set := range v.Sets {
		needed[set.action()] = true
	}
	return sortedKeys(needed)
}

// Superseded are the processes that are alive beside a newer one of their participant: they do not work.
func (v *View) Superseded() []Instance {
	return slices.DeleteFunc(slices.Clone(v.processes), func(process Instance) bool { return slices.Contains(v.Instances, process) })
}

// Incomplete are the prefixes of participants that are in the middle of writing what they need. No action begins meanwhile.
func (v *View) Incomplete() []string { return slices.Clone(v.incomplete) }

// Doing tells whether an action is being done to a member because of the entry that it has now.
func (v *View) Doing(action Action, id MemberID) bool {
	set, _ := action.Sets()
	member, pending := v.Sets[set][id]
	return pending && v.Intent != nil && v.Intent.Action == action && v.Intent.Members[id] == member.Version
}

// Waits are what an action waits for that is not being done, as far as it can be seen by somebody who is no instance. It
// is empty when nothing is pending, and also when all are ready: then one of the instances begins when nothing has
// changed for as long as it wants. How long that is, and how patient they are, only the instances know.
func (v *View) Waits(action Action) []Waits {
	pending := v.Pending(action)
	maps.DeleteFunc(pending, func(id MemberID, _ Member) bool { return v.Doing(action, id) })
	if len(pending) == 0 {
		return nil
	}
	waits := judge(v, pending, policies{{}}, 0, 0, action).Waits
	if v.Lock != nil && v.Intent == nil {
		waits = append(waits, Waits{v.Lock.Holder, "it holds the lock"})
	}
	switch {
	case len(v.Instances) == 0:
		waits = append(waits, Waits{Reason: "an instance: none is alive"})
	case !slices.ContainsFunc(v.Instances, func(i Instance) bool { return v.Denied[i.Name] == nil }):
		waits = append(waits, Waits{Reason: "an instance that may act: all that are alive are on the deny list"})
	}
	return waits
}

// Unanswered is the step that is being done if it is an order that was not answered yet, and the prefix of the instance
// that has to answer, as far as that is known. It is nil when nobody has to.
func (v *View) Unanswered() (step *Step, prefix string) {
	step = v.Intent.step()
	if step == nil || !step.Order {
		return nil, ""
	}
	for _, id := range step.Members {
		if !v.Answers[id].answers(v.Intent) {
			return step, v.Owner(id)
		}
	}
	return nil, ""
}

// Accepted tells whether a member's participant has accepted the present order for it and not answered yet: it may be
// carrying it out at this moment.
func (v *View) Accepted(id MemberID) bool { return v.Answers[id].pending(v.Intent) }

// acceptedBy returns the members for which the participant with a prefix has accepted the present order and not answered yet.
func (v *View) acceptedBy(prefix string) []MemberID {
	var accepted []MemberID
	if step := v.Intent.step(); step == nil || step.Together && !v.Intent.Go {
		return nil // nobody carries out what not all have accepted
	}
	for key := range v.entries {
		if at := v.keys.split(key); len(at) == 3 && at[0] == kindAnswers && at[1] == prefix && v.Accepted(MemberID(at[2])) {
			accepted = append(accepted, MemberID(at[2]))
		}
	}
	slices.Sort(accepted)
	return accepted
}

// Owner is the prefix of the instance that a member belongs to: by what was said of it, or else, since a member's ID begins
// with its prefix, by its name. It is empty if neither tells.
func (v *View) Owner(id MemberID) string {
	for _, set := range sortedKeys(v.Sets) {
		if member, is := v.Sets[set][id]; is {
			return member.Prefix
		}
	}
	for key := range v.entries {
		if at := v.keys.split(key); len(at) == 3 && at[0] == kindAnswers && at[2] == string(id) {
			return at[1]
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

// Left are the prefixes of which no instance is alive, and that none has left: something that one has said is still
// there, if only that there was one.
func (v *View) Left() []string {
	left := map[string]bool{}
	for key := range v.entries {
		if at := v.keys.split(key); len(at) > 1 && owned(at) && !v.Takes(at[1]) {
			left[at[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(left))
}

// owned tells whether the segments of a key are those of something that an instance has written for its prefix.
func owned(at []string) bool {
	switch at[0] {
	case kindChanges, kindParticipants:
		return len(at) == 2
	case kindDenied, kindAnswers:
		return len(at) == 3
	}
	return len(at) == 3 && Set(at[0]).known()
}
