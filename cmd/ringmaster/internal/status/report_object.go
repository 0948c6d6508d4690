package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Object is the state of an object.
type Object struct {
	Reference `json:",inline"`
	UID       types.UID `json:"uid,omitempty"`
	// Places has an entry for each ring that shards the resource of the object.
	Places []Place `json:"places,omitempty"`
	// Events are the recent events of the object, then those of its rings and of the Leases of its shards.
	Events []Event `json:"events,omitempty"`
}

// Reference names an object.
type Reference struct {
	// Resource is its resource, such as deployments.apps.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns the resource and the name as kubectl does.
func (r Reference) String() string { return r.Resource + "/" + r.Name }

// Reason is why an object has its owner, or none.
type Reason string

// The reasons. The first three mean that the object has the owner that it should have.
const (
	// AsDesired: the object is assigned to the shard that should own it.
	AsDesired Reason = "AsDesired"
	// WithController: the controlled object stays with its controller until the controller moves.
	WithController Reason = "WithController"
	// OwnedByLeader: one instance leads and reconciles all objects.
	OwnedByLeader Reason = "OwnedByLeader"
	// NoLeader: no instance leads, so none reconciles the object.
	NoLeader Reason = "NoLeader"
	// LeaderNotRenewing: the leader has not renewed its Lease for long.
	LeaderNotRenewing Reason = "LeaderNotRenewing"
	// NotSharded: the object has no controller that is sharded.
	NotSharded Reason = "NotSharded"
	// NotSelected: the ring does not select the namespace of the object.
	NotSelected Reason = "NotSelected"
	// Unassigned: the object has no shard label.
	Unassigned Reason = "Unassigned"
	// NoShards: the ring has no shard that is assigned objects.
	NoShards Reason = "NoShards"
	// ShardGone: the shard in the label has no Lease.
	ShardGone Reason = "ShardGone"
	// ShardRefused: the ring refuses the Lease of the shard in the label.
	ShardRefused Reason = "ShardRefused"
	// ShardDead: the shard in the label does not hold its Lease.
	ShardDead Reason = "ShardDead"
	// ShardNotRenewing: the owner has not renewed its Lease for long.
	ShardNotRenewing Reason = "ShardNotRenewing"
	// ShardLeaving: the owner is leaving the ring and hands the object over.
	ShardLeaving Reason = "ShardLeaving"
	// Draining: the owner is asked to release the object.
	Draining Reason = "Draining"
	// DrainPending: the sharder is about to ask the owner to release the object.
	DrainPending Reason = "DrainPending"
	// UndrainPending: the sharder is about to withdraw the drain.
	UndrainPending Reason = "UndrainPending"
	// MovePending: the sharder is about to move the controlled object to the owner of its controller.
	MovePending Reason = "MovePending"
	// ControllerGone: the controller of the object does not exist.
	ControllerGone Reason = "ControllerGone"
	// Unknown: something that is needed for the decision cannot be read.
	Unknown Reason = "Unknown"
)

// Place is the state of an object in a ring.
type Place struct {
	Ring      string `json:"ring"`
	Ownership `json:",inline"`
	// Desired is the shard that should own the object, or "".
	Desired string `json:"desired,omitempty"`
	// Draining is set if the owner is asked to release the object.
	Draining *Drain `json:"draining,omitempty"`
	// Controller is the controller of a controlled object.
	Controller *RelatedObject `json:"controller,omitempty"`
	// Children are the objects of controlled resources whose controller is this object.
	Children []RelatedObject `json:"children,omitempty"`
	// Agrees is whether the owner is the one that the object should have, or it should have none and has none.
	Agrees bool `json:"agrees"`
	// Reason and Message are why the object has this owner, and what happens next, for programs and for people.
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// Ownership is the owner of an object.
type Ownership struct {
	// Shard is the shard in the label, or the instance that leads, or "". State is its state.
	Shard string `json:"shard,omitempty"`
	State string `json:"state,omitempty"`
	// Since is when the label was written. If SinceExact is false, it may have been earlier.
	Since      *metav1.Time `json:"since,omitempty"`
	SinceExact bool         `json:"sinceExact,omitempty"`
}

// Drain is a request to release an object.
type Drain struct {
	// To is the next owner, if the request names one.
	To string `json:"to,omitempty"`
	// Since is when the drain began.
	Since *metav1.Time `json:"since,omitempty"`
}

// RelatedObject is the controller or a child of an object.
type RelatedObject struct {
	Reference `json:",inline"`
	Ownership `json:",inline"`
	// Error is why it could not be read.
	Error string `json:"error,omitempty"`
}
