package agent

import (
	"errors"
	"fmt"
	"time"
)

// Order identifies an order. Every call that affects a process or its data has one.
type Order struct {
	// Token is the fencing token of the lock. It is larger than 0, and grows with every holder.
	Token int64 `json:"token"`
	// System is the system to which the token and the member belong.
	System string `json:"system"`
	// ID identifies the order. An order with the ID of the last order of the member changes nothing.
	ID string `json:"order"`
}

// ClusterState is whether a member starts a new system or joins one.
type ClusterState string

const (
	// ClusterNew is the state for the member that starts a system.
	ClusterNew ClusterState = "new"
	// ClusterExisting is the state for a member that the system has already added.
	ClusterExisting ClusterState = "existing"
)

// Launch has the parameters of a member's first start. Later starts use its data.
type Launch struct {
	// InitialCluster has all members of the system with their peer URLs, in the format of etcd's flag:
	// a=http://127.0.0.1:1,b=http://127.0.0.1:2
	InitialCluster string       `json:"initialCluster"`
	State          ClusterState `json:"state"`
}

// Phase is the phase of a member.
type Phase string

const (
	// Prepared means that the member has addresses and no data.
	Prepared Phase = "Prepared"
	// Running means that its process should run.
	Running Phase = "Running"
	// Stopped means that its process should not run, and its data are kept.
	Stopped Phase = "Stopped"
	// Deleting means that its process is being stopped permanently, and its data removed.
	Deleting Phase = "Deleting"
)

// Member is a member as the agent reports it.
type Member struct {
	ID string `json:"id"`
	// Region is the region of the agent, and System the system of the member.
	Region string `json:"region"`
	System string `json:"system,omitempty"`
	// ClientURL and PeerURL never change.
	ClientURL string `json:"clientURL"`
	PeerURL   string `json:"peerURL"`
	Phase     Phase  `json:"phase"`
	// Args are the arguments for the next ordered start or restart.
	Args map[string]string `json:"args,omitempty"`
	// Applied are the arguments of the last ordered start or restart. After a crash they are used again.
	Applied map[string]string `json:"applied,omitempty"`
	// Version is the version of etcd for the next ordered start or restart, AppliedVersion the one of the last.
	// Empty means the agent's own version.
	Version        string `json:"version,omitempty"`
	AppliedVersion string `json:"appliedVersion,omitempty"`
	// LastOrder is the ID of the last order.
	LastOrder string `json:"lastOrder,omitempty"`
	// Running is set while a process exists. PID and Since are its ID and start time.
	Running bool      `json:"running"`
	PID     int       `json:"pid,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Crashes is how often in a row the process has ended by itself soon after its start.
	Crashes int `json:"crashes,omitempty"`
	// Problem is the reason why the process does not run although it should.
	Problem string `json:"problem,omitempty"`
}

// ArgsCurrent reports whether the process has the version and the arguments that are set for the next start.
func (m Member) ArgsCurrent() bool {
	return sameArgs(m.Args, m.Applied) && m.Version == m.AppliedVersion
}

// Reason is the reason of a refusal.
type Reason string

// The reasons of refusals.
const (
	// ReasonFenced: the agent has seen a higher token.
	ReasonFenced Reason = "Fenced"
	// ReasonNotPrepared: the member does not exist.
	ReasonNotPrepared Reason = "NotPrepared"
	// ReasonNotStarted: the member was never started.
	ReasonNotStarted Reason = "NotStarted"
	// ReasonDeleting: the member is being deleted.
	ReasonDeleting Reason = "Deleting"
	// ReasonTaken: the member belongs to another system.
	ReasonTaken Reason = "Taken"
	// ReasonInvalid: the request is invalid.
	ReasonInvalid Reason = "Invalid"
	// ReasonFailed: the agent failed to carry out the order.
	ReasonFailed Reason = "Failed"
)

// RefusedError is returned when the agent refuses an order or fails.
type RefusedError struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// Seen is the highest token of the system, if the order was refused because of its token.
	Seen int64 `json:"seen,omitempty"`
}

func (e *RefusedError) Error() string { return "the agent refuses: " + e.Message }

// Is compares the reasons, for errors.Is(err, agent.ErrFenced).
func (e *RefusedError) Is(target error) bool {
	var other *RefusedError
	return errors.As(target, &other) && other.Reason == e.Reason
}

// Errors for errors.Is.
var (
	// ErrFenced is returned when the agent has seen a higher token: the lock is lost, or the store was restored
	// from an old snapshot.
	ErrFenced error = &RefusedError{Reason: ReasonFenced}
	// ErrNotPrepared is returned when the member does not exist.
	ErrNotPrepared error = &RefusedError{Reason: ReasonNotPrepared}
	// ErrNotStarted is returned for a restart of a member that was never started.
	ErrNotStarted error = &RefusedError{Reason: ReasonNotStarted}
	// ErrDeleting is returned while the member is being deleted.
	ErrDeleting error = &RefusedError{Reason: ReasonDeleting}
	// ErrTaken is returned when the member belongs to another system.
	ErrTaken error = &RefusedError{Reason: ReasonTaken}
	// ErrInvalid is returned for an invalid request.
	ErrInvalid error = &RefusedError{Reason: ReasonInvalid}
)

func refuse(reason Reason, format string, args ...any) error {
	return &RefusedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
