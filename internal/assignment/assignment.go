// Package assignment decides about one object: whether it stays with its owner, is assigned to
// another shard, or is drained first.
//
// It guarantees:
//   - An object leaves a live shard only after that shard has released it.
//   - A controlled object never leaves a shard that still owns its controller.
//   - An object whose owner is the desired one is not written.
package assignment

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Action is the sharder's action on an object.
type Action string

// The actions.
const (
	// Keep does not change the object.
	Keep Action = "keep"
	// Assign records an owner at once, because the object has no live one.
	Assign Action = "assign"
	// Move assigns a controlled object to the shard that already owns its controller.
	Move Action = "move"
	// Drain asks the owner to release the object to another shard.
	Drain Action = "drain"
	// Undrain withdraws a drain.
	Undrain Action = "undrain"
)

// Decision is an action and the shard that owns the object afterwards.
type Decision struct {
	Action Action
	Shard  string
}

// Members are the live shards. A leaving member hands its objects over by itself, so they are not
// drained.
type Members interface {
	Has(shard string) bool
	IsLeaving(shard string) bool
}

// Object has the labels of an object that decisions depend on.
type Object struct {
	// Shard is the value of the shard label, or "".
	Shard string
	// Draining is true if the object has the drain label. Destination is the value of that label.
	Draining    bool
	Destination string
}

// DecideMain decides about an object of a main resource. desired is the owner of its key in the
// ring; "" means that the ring has no shards or the object has no key yet.
func DecideMain(object Object, desired string, members Members) Decision {
	switch {
	case desired == "":
		return Decision{Action: Keep}
	case object.Shard == "" || !members.Has(object.Shard):
		return Decision{Assign, desired}
	case members.IsLeaving(object.Shard):
		return Decision{Action: Keep}
	case object.Shard == desired && object.Draining:
		return Decision{Undrain, desired}
	case object.Shard == desired:
		return Decision{Action: Keep}
	case object.Draining && (object.Destination == desired || !members.Has(object.Destination) && !isShard(object.Destination)):
		return Decision{Keep, desired}
	default:
		return Decision{Drain, desired}
	}
}

// isShard reports whether the value of a drain label names a shard. Other sharders write "true".
func isShard(destination string) bool { return destination != "" && destination != "true" }

// DecideControlled decides about an object of a controlled resource. desired is the owner of its
// controller's key in the ring. controllerShard returns the current owner of the controller, or "",
// and is called only if the decision depends on it.
func DecideControlled(object Object, desired string, members Members, controllerShard func() string) Decision {
	switch {
	case desired == "" || object.Shard == desired:
		return Decision{Action: Keep}
	case object.Shard == "" || !members.Has(object.Shard):
		return Decision{Assign, desired}
	case members.IsLeaving(object.Shard):
		return Decision{Action: Keep}
	}
	switch shard := controllerShard(); {
	case shard == object.Shard, shard == "", !members.Has(shard):
		// The child stays with its controller, or until its controller has a live owner again.
		return Decision{Action: Keep}
	default:
		return Decision{Move, shard}
	}
}

// Key returns the key of an object in the ring: group, kind, namespace and name. It has neither the
// version, because an object can be read in several, nor the UID, which is not set at admission.
func Key(kind schema.GroupKind, namespace, name string) string {
	return kind.Group + "/" + kind.Kind + "/" + namespace + "/" + name
}

// Controller returns the kind and name of the controller among an object's owner references.
func Controller(owners []metav1.OwnerReference) (kind schema.GroupKind, name string, found bool) {
	for i := range owners {
		if owner := &owners[i]; owner.Controller != nil && *owner.Controller {
			version, err := schema.ParseGroupVersion(owner.APIVersion)
			if err != nil {
				return schema.GroupKind{}, "", false
			}
			return schema.GroupKind{Group: version.Group, Kind: owner.Kind}, owner.Name, true
		}
	}
	return schema.GroupKind{}, "", false
}
