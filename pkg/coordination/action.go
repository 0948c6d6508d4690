package coordination

import (
	"fmt"
	"regexp"
	"strings"
)

// Action is the name of a disruption of the managed system, such as Restart or Upgrade. The adopter chooses it. It begins with a
// capital letter and has only letters and digits. Each action has two sets of members: those that need it, and those that are ready
// for it.
type Action string

// Set is a set of members that all participants share: the members that need an action, or those that are ready for it.
type Set string

const (
	pendingFor = "pendingFor"
	readyFor   = "readyFor"
)

// Sets returns the two sets of an action.
func (a Action) Sets() (pending, ready Set) { return pendingFor + Set(a), readyFor + Set(a) }

var actionName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

func (a Action) check() error {
	if !actionName.MatchString(string(a)) {
		return fmt.Errorf("action %q must be a capital letter followed by at most 62 letters and digits, as in RollingRestart", a)
	}
	return nil
}

// action returns the action of a set, or "".
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

// known reports whether it is the name of a set.
func (s Set) known() bool {
	return s.action().check() == nil
}

// isReady reports whether it is a set of ready members. Only their entries can have addresses.
func (s Set) isReady() bool { return strings.HasPrefix(string(s), readyFor) }
