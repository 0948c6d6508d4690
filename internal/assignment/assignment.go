package assignment

// Action is what is to happen to an object.
type Action string

// The actions.
const (
	// Keep leaves the object alone.
	Keep Action = "keep"
	// Assign gives the object to a shard at once: it has no live one.
	Assign Action = "assign"
	// Move gives a controlled object to the shard that has its controller already.
	Move Action = "move"
	// Drain asks the object's shard to let it go, in favour of another one.
	Drain Action = "drain"
	// Undrain takes that back: the object may stay.
	Undrain Action = "undrain"
)

// Decision is an action, with the shard that it is about: the one that gets the object, or is to
// get it.
type Decision struct {
	Action Action
	Shard  string
}

// Members tells which shards are alive, and which of them are leaving: those hand over what they have
// by themselves, and are not asked to.
type Members interface {
	Has(shard string) bool
	Leaving(shard string) bool
}

// Object is what counts of an object.
type Object struct {
	// Shard is the value of its shard label, or "".
	Shard string
	// Draining is whether it has the drain label, and Destination that label's value.
	Draining    bool
	Destination string
}

// Main decides about an object of a main resource. Desired is the shard that the ring says; ""
// means that there are no shards, or that the object has no key yet.
func Main(object Object, desired string, members Members) Decision {
	switch {
	case desired == "":
		return Decision{Action: Keep}
	case object.Shard == "" || !members.Has(object.Shard):
		return Decision{Assign, desired}
	case members.Leaving(object.Shard):
		return Decision{Action: Keep}
	case object.Shard == desired && object.Draining:
		return Decision{Undrain, desired}
	case object.Shard == desired:
		return Decision{Action: Keep}
	case object.Draining && (object.Destination == desired || !members.Has(object.Destination) && !ours(object.Destination)):
		return Decision{Keep, desired}
	default:
		return Decision{Drain, desired}
	}
}

// ours tells whether a drain label's value names a destination. Other sharders write "true".
func ours(destination string) bool { return destination != "" && destination != "true" }

// Controlled decides about an object of a controlled resource. Desired is what the ring says for its
// controller; controller returns the shard that has the controller now, or "" if none does, and is
// asked only when that matters.
func Controlled(object Object, desired string, members Members, controller func() string) Decision {
	switch {
	case desired == "" || object.Shard == desired:
		return Decision{Action: Keep}
	case object.Shard == "" || !members.Has(object.Shard):
		return Decision{Assign, desired}
	case members.Leaving(object.Shard):
		return Decision{Action: Keep}
	}
	switch shard := controller(); {
	case shard == object.Shard, shard == "", !members.Has(shard):
		// It stays with its controller, or until its controller has a shard again.
		return Decision{Action: Keep}
	default:
		return Decision{Move, shard}
	}
}
