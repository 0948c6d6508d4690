package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Object is an object, and where it is in each ring that spreads its kind.
type Object struct {
	Reference `json:",inline"`
	UID       types.UID `json:"uid,omitempty"`
	// Places are one for each ring that spreads the object's kind.
	Places []Place `json:"places,omitempty"`
}

// Reference names an object.
type Reference struct {
	// Resource is its resource, such as deployments.apps.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String is how people write it.
func (r Reference) String() string { return r.Resource + "/" + r.Name }

// Reason is why an object is where it is.
type Reason string

// The reasons. With the first three all is well.
const (
	// Settled is where the ring says.
	Settled Reason = "Settled"
	// WithController is a controlled object that stays with its controller, until that moves.
	WithController Reason = "WithController"
	// Led is with the one instance that has everything, because it leads.
	Led Reason = "Led"
	// NoLeader is without anybody who works on it, because nobody leads.
	NoLeader Reason = "NoLeader"
	// LeaderSilent has a leader that has not renewed its Lease for long.
	LeaderSilent Reason = "LeaderSilent"
	// NotSpread is none of the ring's business: it has no controller that the ring spreads.
	NotSpread Reason = "NotSpread"
	// NotSelected is in a namespace that the ring does not select.
	NotSelected Reason = "NotSelected"
	// Unassigned has no shard's label yet.
	Unassigned Reason = "Unassigned"
	// NoShards is without a live shard, because the ring has none.
	NoShards Reason = "NoShards"
	// ShardGone has the label of a shard that has no Lease.
	ShardGone Reason = "ShardGone"
	// ShardRefused has the label of a shard that the ring does not take.
	ShardRefused Reason = "ShardRefused"
	// ShardDead has the label of a shard that does not hold its Lease.
	ShardDead Reason = "ShardDead"
	// ShardSilent has a shard that has not renewed its Lease for long.
	ShardSilent Reason = "ShardSilent"
	// ShardLeaving has a shard that is leaving, and hands it over.
	ShardLeaving Reason = "ShardLeaving"
	// Draining has a shard that was asked to let it go.
	Draining Reason = "Draining"
	// DrainDue has a shard that is about to be asked to let it go.
	DrainDue Reason = "DrainDue"
	// UndrainDue may stay after all.
	UndrainDue Reason = "UndrainDue"
	// MoveDue is a controlled object whose controller has moved already.
	MoveDue Reason = "MoveDue"
	// ControllerGone is a controlled object whose controller does not exist.
	ControllerGone Reason = "ControllerGone"
	// NotKnown cannot be judged, because something cannot be read.
	NotKnown Reason = "NotKnown"
)

// Place is where an object is in a ring, where it should be, and why.
type Place struct {
	Ring string `json:"ring"`
	Held `json:",inline"`
	// Desired is the shard that the ring says, or "" if it says none.
	Desired string `json:"desired,omitempty"`
	// Draining is there if the shard was asked to let the object go.
	Draining *Drain `json:"draining,omitempty"`
	// Controller is what decides where a controlled object belongs.
	Controller *Relative `json:"controller,omitempty"`
	// Children are the objects of controlled kinds that this one controls.
	Children []Relative `json:"children,omitempty"`
	// Agrees is whether the object is where it belongs, or belongs nowhere and has no label.
	Agrees bool `json:"agrees"`
	// Reason and Message are why it is where it is, for programs and in words.
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// Held is who has an object.
type Held struct {
	// Shard is what the object's label names, or the instance that leads, or "". State is that shard's.
	Shard string `json:"shard,omitempty"`
	State string `json:"state,omitempty"`
	// Since is from when the label is there: from then if SinceExact, or else from then or earlier.
	Since      *metav1.Time `json:"since,omitempty"`
	SinceExact bool         `json:"sinceExact,omitempty"`
}

// Drain is the request to let an object go.
type Drain struct {
	// To is the shard that is to get it, if the request names one.
	To string `json:"to,omitempty"`
	// Since is when the shard was asked.
	Since *metav1.Time `json:"since,omitempty"`
}

// Relative is a controller or a child of an object.
type Relative struct {
	Reference `json:",inline"`
	Held      `json:",inline"`
	// Error is why it could not be read.
	Error string `json:"error,omitempty"`
}
