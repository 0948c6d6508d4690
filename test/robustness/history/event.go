package history

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EventType is the type of an event.
type EventType string

// The events that a process records about itself.
const (
	// Started and Ended are the start and end of a reconcile.
	Started EventType = "started"
	Ended   EventType = "ended"
	// Joined, Left and Lost are about the process's Lease: acquired, released and lost.
	Joined EventType = "joined"
	Left   EventType = "left"
	Lost   EventType = "lost"
)

// The events that the test records about processes.
const (
	// Gone is recorded when the process has ended, by itself or killed.
	Gone EventType = "gone"
	// Paused is recorded after the process is paused, Resumed before it is resumed.
	Paused  EventType = "paused"
	Resumed EventType = "resumed"
)

// The events that the test records about the API server.
const (
	// Wrote is a write of an object, Leased one of a shard's Lease.
	Wrote  EventType = "wrote"
	Leased EventType = "leased"
	// Requested is a request of a user.
	Requested EventType = "asked"
)

// Event is an event of a run. Which of the last fields is set depends on Type.
type Event struct {
	Time time.Time `json:"time"`
	Type EventType `json:"what"`
	// Process is the ID of the process, which is unique, and Shard the name of its shard, which two
	// processes can have.
	Process string `json:"process,omitempty"`
	Shard   string `json:"shard,omitempty"`
	// Instance, of Joined, is the instance in the Lease, which distinguishes processes with the same name.
	Instance string `json:"instance,omitempty"`

	Reconcile *Reconcile `json:"reconcile,omitempty"`
	Write     *Write     `json:"write,omitempty"`
	Lease     *Lease     `json:"lease,omitempty"`
	Request   *Request   `json:"request,omitempty"`
}

// Object names an object. An object that is deleted and created again has the same name.
type Object struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// GroupKind returns the kind of the object.
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
	// Number distinguishes the reconciles of one process.
	Number int64  `json:"number"`
	Object Object `json:"object"`
	// UID and Version are those of the object that the reconciler read, set at the end, or empty if it was
	// not found.
	UID     string `json:"uid,omitempty"`
	Version uint64 `json:"version,omitempty"`
	// ContextEnded is whether the context of the reconcile has ended.
	ContextEnded bool `json:"contextEnded,omitempty"`
}

// Write is the result of a write of an object.
type Write struct {
	Object  Object `json:"object"`
	UID     string `json:"uid"`
	Version uint64 `json:"version"`
	// Shard is the value of the shard label, or "".
	Shard string `json:"shard,omitempty"`
	// Draining is whether the object has the drain label, and Destination its value.
	Draining    bool   `json:"draining,omitempty"`
	Destination string `json:"destination,omitempty"`
	// Controller is the object's controller, if it has one.
	Controller *Object `json:"controller,omitempty"`
	// Manager is the field manager of the shard label.
	Manager string `json:"manager,omitempty"`
	// Deleted is whether the object was deleted; the other fields are from its last version.
	Deleted bool `json:"deleted,omitempty"`
	// Listed is whether it comes from a list: earlier writes may be missing.
	Listed bool `json:"listed,omitempty"`
	// Content is the result of Watcher.Content.
	Content string `json:"content,omitempty"`
	// Renewal is whether the object is a Lease and the write changed only its renewTime.
	Renewal bool `json:"renewal,omitempty"`
}

// Lease is the result of a write of a shard's Lease.
type Lease struct {
	// Shard is the Lease's name.
	Shard   string `json:"shard"`
	Version uint64 `json:"version"`
	// Holder is the shard, the sharder or empty. Instance distinguishes processes with the name of the
	// shard.
	Holder   string `json:"holder,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Leaving is whether the shard hands its objects over and is assigned no new ones.
	Leaving bool `json:"leaving,omitempty"`
	// Renewed is the time in the Lease, by the clock of its holder.
	Renewed time.Time `json:"renewed,omitzero"`
	Deleted bool      `json:"deleted,omitempty"`
	// Renewal is whether the write changed only the renewTime.
	Renewal bool `json:"renewal,omitempty"`
}

// Held reports whether the Lease makes its shard a member.
func (l *Lease) Held() bool { return !l.Deleted && l.Holder != "" && l.Holder == l.Shard }

// Request is a request of a user with its result.
type Request struct {
	Verb   string        `json:"verb"`
	Object Object        `json:"object"`
	Took   time.Duration `json:"took"`
	// Error is its error, or "".
	Error string `json:"error,omitempty"`
	// Reference is whether no ring selects the object. The duration of such requests shows the load of the API server.
	Reference bool `json:"reference,omitempty"`
}
