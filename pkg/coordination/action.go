package coordination

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Action names something that disturbs the managed system, in the words of its operators: Restart, Upgrade. It begins with a
// capital letter and has only letters and digits.
type Action string

// The actions of a system whose members are excluded before they are removed, and included when they are new.
const (
	// Removal takes members away for good. It has no set of ready members: what is pending is ready.
	Removal Action = "Removal"
	// Exclusion makes the system do without members that are still there.
	Exclusion Action = "Exclusion"
	// Inclusion lets the system use members, again or for the first time.
	Inclusion Action = "Inclusion"
	// Restart ends processes and starts them again.
	Restart Action = "Restart"
	// CoordinatorChoice gives the leading part in the system to other members. It has no sets: it is done because of the
	// other actions, and a member that waits for one of them is no candidate.
	CoordinatorChoice Action = "CoordinatorChoice"
)

// Actions returns those that this package has names for.
func Actions() []Action {
	return []Action{Removal, Exclusion, Inclusion, Restart, CoordinatorChoice}
}

// Set is one of the sets of members that the participants keep together: those that need an action, and those that are ready
// for it.
type Set string

const (
	pendingFor = "pendingFor"
	readyFor   = "readyFor"
)

// The sets of the actions above. The names are those of the keys.
const (
	PendingForRemoval   Set = pendingFor + Set(Removal)
	PendingForExclusion Set = pendingFor + Set(Exclusion)
	PendingForInclusion Set = pendingFor + Set(Inclusion)
	PendingForRestart   Set = pendingFor + Set(Restart)
	ReadyForExclusion   Set = readyFor + Set(Exclusion)
	ReadyForInclusion   Set = readyFor + Set(Inclusion)
	ReadyForRestart     Set = readyFor + Set(Restart)
)

// Sets returns the sets of Actions.
func Sets() []Set {
	var all []Set
	for _, action := range Actions() {
		pending, ready := action.Sets()
		all = append(all, pending, ready)
	}
	all = slices.DeleteFunc(all, func(set Set) bool { return set == "" })
	slices.Sort(all)
	return all
}

// Sets returns those that decide about an action.
func (a Action) Sets() (pending, ready Set) {
	switch a {
	case "", CoordinatorChoice:
		return "", ""
	case Removal:
		return PendingForRemoval, ""
	}
	return pendingFor + Set(a), readyFor + Set(a)
}

var actionName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

func (a Action) check() error {
	if !actionName.MatchString(string(a)) {
		return fmt.Errorf("action %q must be a capital letter followed by at most 62 letters and digits, as in RollingRestart", a)
	}
	return nil
}

// action returns the action that a set belongs to, "" if there is none.
func (s Set) action() Action {
	name, pending := strings.CutPrefix(string(s), pendingFor)
	if !pending {
		var ready bool
		if name, ready = strings.CutPrefix(string(s), readyFor); !ready {
			return ""
		}
	}
	return Action(name)
}

// known tells whether there is such a set.
func (s Set) known() bool {
	action := s.action()
	if action.check() != nil {
		return false
	}
	pending, ready := action.Sets()
	return s == pending || s == ready
}

// isReady tells whether it is a set of ready members: their entries can have addresses.
func (s Set) isReady() bool { return strings.HasPrefix(string(s), readyFor) }
