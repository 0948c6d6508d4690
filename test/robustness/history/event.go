package history

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is the kind of an event.
type What string

// What a process records of itself.
const (
	// Started and Ended are a reconcile's.
	Started What = "started"
	Ended   What = "ended"
	// Joined, Left and Lost are about the process's Lease: it holds it, gave it up, or lost it.
	Joined What = "joined"
	Left   What = "left"
	Lost   What = "lost"
)

// What the test records of what it does to a process.
const (
	// Gone is recorded when the process has ended, by itself or by force.
	Gone What = "gone"
	// Paused is recorded after the process was stopped where it was, Resumed before it goes on.
	Paused  What = "paused"
	Resumed What = "resumed"
)

// What the test records of the API server.
const (
	// Wrote is a write of an object, Leased one of a shard's Lease.
	Wrote  What = "wrote"
	Leased What = "leased"
	// Asked is a request of a user.
	Asked What = "asked"
)

// Event is one thing that happened. Which of the last fields is set depends on What.
type Event struct {
	Time time.Time `json:"time"`
	What What      `json:"what"`
	// Process is who did it, or whom it was done to, and Shard the name under which it works. Two
	// processes can have one shard's name, never one process's.
	Process string `json:"process,omitempty"`
	Shard   string `json:"shard,omitempty"`
	// Instance, of Joined, is how the Lease tells the process from others with the same name.
	Instance string `json:"instance,omitempty"`

	Reconcile *Reconcile `json:"reconcile,omitempty"`
	Write     *Write     `json:"write,omitempty"`
	Lease     *Lease     `json:"lease,omitempty"`
	Request   *Request   `json:"request,omitempty"`
}

// Object names an object. One that is deleted and created again is the same.
type Object struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// GroupKind is the object's kind.
func (o Object) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: o.Group, Kind: o.Kind}
}

func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Reconcile is the start or end of a reconcile.
type Reconcile struct {
	// Number tells the reconciles of one process apart.
	Number int64  `json:"number"`
	Object Object `json:"object"`
	// UID and Version are of the object as the reconciler read it, known at the end, or nothing if
	// it found none.
	UID     string `json:"uid,omitempty"`
	Version uint64 `json:"version,omitempty"`
	// ContextEnded is whether the reconcile was told to stop.
	ContextEnded bool `json:"contextEnded,omitempty"`
}

// Write is what a write left of an object.
type Write struct {
	Object  Object `json:"object"`
	UID     string `json:"uid"`
	Version uint64 `json:"version"`
	// Shard is the value of the shard label, or "".
	Shard string `json:"shard,omitempty"`
	// Draining is whether the drain label is there, and Destination its value.
	Draining    bool   `json:"draining,omitempty"`
	Destination string `json:"destination,omitempty"`
	// Controller is the object's controller, if it has one.
	Controller *Object `json:"controller,omitempty"`
	// Manager is who has set the shard label, as the API server notes it.
	Manager string `json:"manager,omitempty"`
	// Deleted is whether the object is gone; the rest is what it looked like last.
	Deleted bool `json:"deleted,omitempty"`
	// Listed is whether it was found in a list: writes before this one may be missing.
	Listed bool `json:"listed,omitempty"`
	// Content is what the Watcher's function of that name found in the object.
	Content string `json:"content,omitempty"`
	// Renewal is whether the object is a Lease and the write changed only its renewTime.
	Renewal bool `json:"renewal,omitempty"`
}

// Lease is what a write left of a shard's Lease.
type Lease struct {
	// Shard is the Lease's name.
	Shard   string `json:"shard"`
	Version uint64 `json:"version"`
	// Holder is who has it: the shard, nobody, or the sharder. Instance tells processes with the
	// shard's name apart.
	Holder   string `json:"holder,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Leaving is whether the shard gets no more objects and hands over what it has.
	Leaving bool `json:"leaving,omitempty"`
	// Renewed is the time in the Lease, by the clock of its holder.
	Renewed time.Time `json:"renewed,omitzero"`
	Deleted bool      `json:"deleted,omitempty"`
	// Renewal is whether the write changed only the renewTime.
	Renewal bool `json:"renewal,omitempty"`
}

// Held tells whether the Lease makes its shard a member.
func (l *Lease) Held() bool { return !l.Deleted && l.Holder != "" && l.Holder == l.Shard }

// Request is what a user asked for and what came of it.
type Request struct {
	Verb   string        `json:"verb"`
	Object Object        `json:"object"`
	Took   time.Duration `json:"took"`
	// Error is why it failed, or "".
	Error string `json:"error,omitempty"`
	// Reference is whether no ring selects the object. How long such requests take shows how busy the API server is.
	Reference bool `json:"reference,omitempty"`
}
