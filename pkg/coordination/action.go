package coordination

import "slices"

// Action is something that disturbs the managed system.
type Action string

const (
	// Removal takes members away for good.
	Removal Action = "Removal"
	// Exclusion makes the system do without members that are still there.
	Exclusion Action = "Exclusion"
	// Inclusion lets the system use members, again or for the first time.
	Inclusion Action = "Inclusion"
	// Restart ends processes and starts them again.
	Restart Action = "Restart"
	// CoordinatorChoice gives the leading part in the system to other members. No entries ask for it: it is done
	// because of the other actions, and a member that waits for one of them is no candidate.
	CoordinatorChoice Action = "CoordinatorChoice"
)

// Actions are all of them.
func Actions() []Action {
	return []Action{Removal, Exclusion, Inclusion, Restart, CoordinatorChoice}
}

// Set is one of the sets of members that the instances keep together.
type Set string

// The names are those of the keys.
const (
	PendingForRemoval   Set = "pendingForRemoval"
	PendingForExclusion Set = "pendingForExclusion"
	PendingForInclusion Set = "pendingForInclusion"
	PendingForRestart   Set = "pendingForRestart"
	ReadyForExclusion   Set = "readyForExclusion"
	ReadyForInclusion   Set = "readyForInclusion"
	ReadyForRestart     Set = "readyForRestart"
)

// Sets are all of them.
func Sets() []Set {
	return []Set{
		PendingForRemoval, PendingForExclusion, PendingForInclusion, PendingForRestart,
		ReadyForExclusion, ReadyForInclusion, ReadyForRestart,
	}
}

// Sets are those that decide about an action. What has no ready set is ready as soon as it is pending, and nothing
// asks for what has none at all.
func (a Action) Sets() (pending, ready Set) {
	switch a {
	case Removal:
		return PendingForRemoval, ""
	case Exclusion:
		return PendingForExclusion, ReadyForExclusion
	case Inclusion:
		return PendingForInclusion, ReadyForInclusion
	case Restart:
		return PendingForRestart, ReadyForRestart
	case CoordinatorChoice:
	}
	return "", ""
}

// hasAddresses tells whether the entries of a set say where their members can be reached.
func (s Set) hasAddresses() bool { return s == ReadyForExclusion || s == ReadyForInclusion }

// known tells whether there is such a set.
func (s Set) known() bool { return slices.Contains(Sets(), s) }
