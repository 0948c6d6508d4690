package agent

import (
	"errors"
	"fmt"
	"time"
)

// Order is what every call that touches a process or its data is given under.
type Order struct {
	// Token is that of the lock under which it was decided. It grows with every holder; 0 is none, and refused.
	Token int64 `json:"token"`
	// System is the system that the token belongs to, which is the member's system.
	System string `json:"system"`
	// ID tells this order from others. One that has the ID of the order which was carried out last for the member
	// changes nothing.
	ID string `json:"order"`
}

// ClusterState says whether a member is the first of a new system or joins one.
type ClusterState string

const (
	// ClusterNew is for the member that starts a system.
	ClusterNew ClusterState = "new"
	// ClusterExisting is for a member that the system knows already.
	ClusterExisting ClusterState = "existing"
)

// Launch is what a member has to know the first time that it is started. Afterwards its data tell.
type Launch struct {
	// InitialCluster has all members of the system with their peer URLs, as etcd's flag takes it:
	// a=http://127.0.0.1:1,b=http://127.0.0.1:2
	InitialCluster string       `json:"initialCluster"`
	State          ClusterState `json:"state"`
}

// Phase says what the agent does with a member.
type Phase string

const (
	// Prepared is when it has addresses and no data.
	Prepared Phase = "Prepared"
	// Running is when its process should run.
	Running Phase = "Running"
	// Stopped is when its process should not run, and its data are kept.
	Stopped Phase = "Stopped"
	// Deleting is when its process is being ended for good, and its data removed.
	Deleting Phase = "Deleting"
)

// Member is what the agent knows of one.
type Member struct {
	ID string `json:"id"`
	// Region is the agent's, and System the one that the member was prepared for.
	Region string `json:"region"`
	System string `json:"system,omitempty"`
	// ClientURL and PeerURL are kept for as long as the member is.
	ClientURL string `json:"clientURL"`
	PeerURL   string `json:"peerURL"`
	Phase     Phase  `json:"phase"`
	// Args are those for the next start or restart that is ordered.
	Args map[string]string `json:"args,omitempty"`
	// Applied are those of the last start or restart that was ordered. A process that crashed gets them again.
	Applied map[string]string `json:"applied,omitempty"`
	// Version is that of etcd for the next start or restart that is ordered, and AppliedVersion that of the last one. It is
	// empty for the one that the agent comes with.
	Version        string `json:"version,omitempty"`
	AppliedVersion string `json:"appliedVersion,omitempty"`
	// LastOrder is the ID of the order that was taken last.
	LastOrder string `json:"lastOrder,omitempty"`
	// Running tells whether there is a process at this moment, PID which, and Since from when.
	Running bool      `json:"running"`
	PID     int       `json:"pid,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Crashes is how often in a row the process has ended unasked, soon after its start.
	Crashes int `json:"crashes,omitempty"`
	// Problem says why there is no process although there should be one.
	Problem string `json:"problem,omitempty"`
}

// ArgsCurrent tells whether the process has the version and the arguments that are set for the next one.
func (m Member) ArgsCurrent() bool {
	return sameArgs(m.Args, m.Applied) && m.Version == m.AppliedVersion
}

// Reason says why the agent has refused something.
type Reason string

// The reasons of refusals.
const (
	// ReasonFenced: a higher token was seen.
	ReasonFenced Reason = "Fenced"
	// ReasonNotPrepared: there is no such member.
	ReasonNotPrepared Reason = "NotPrepared"
	// ReasonNotStarted: the member was never started.
	ReasonNotStarted Reason = "NotStarted"
	// ReasonDeleting: the member is about to be gone.
	ReasonDeleting Reason = "Deleting"
	// ReasonTaken: the member is one of another system.
	ReasonTaken Reason = "Taken"
	// ReasonInvalid: the call itself is wrong.
	ReasonInvalid Reason = "Invalid"
	// ReasonFailed: the agent could not do it.
	ReasonFailed Reason = "Failed"
)

// RefusedError is what the agent answers instead of doing something.
type RefusedError struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// Seen is the highest token of the system, if the order was refused because of it.
	Seen int64 `json:"seen,omitempty"`
}

func (e *RefusedError) Error() string { return "the agent refuses: " + e.Message }

// Is compares the reasons alone, so that errors.Is(err, agent.ErrFenced) asks for it.
func (e *RefusedError) Is(target error) bool {
	var other *RefusedError
	return errors.As(target, &other) && other.Reason == e.Reason
}

// What errors.Is can be asked for.
var (
	// ErrFenced is when somebody with a higher token has given orders: the lock is lost, or its counter was restored from an
	// old copy.
	ErrFenced error = &RefusedError{Reason: ReasonFenced}
	// ErrNotPrepared is when there is no such member.
	ErrNotPrepared error = &RefusedError{Reason: ReasonNotPrepared}
	// ErrNotStarted is when a member is to be restarted that never ran.
	ErrNotStarted error = &RefusedError{Reason: ReasonNotStarted}
	// ErrDeleting is when a member is about to be gone.
	ErrDeleting error = &RefusedError{Reason: ReasonDeleting}
	// ErrTaken is when the member is one of another system.
	ErrTaken error = &RefusedError{Reason: ReasonTaken}
	// ErrInvalid is when the call itself is wrong.
	ErrInvalid error = &RefusedError{Reason: ReasonInvalid}
)

func refuse(reason Reason, format string, args ...any) error {
	return &RefusedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
