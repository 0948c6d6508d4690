package view

import "time"

// State is the state of a demo with one ring at one moment.
type State struct {
	Now time.Time
	// StartedAt is when the demo was started.
	StartedAt time.Time
	// Kubernetes is the version of the API server.
	Kubernetes string
	// Mode is lead, shard or in-process.
	Mode string
	Ring Ring
	// Instances are the instances of the operator, Sharders the replicas of the external sharder.
	Instances, Sharders []Instance
	Objects             Objects
	// Moves are the latest moves, the newest last. Moved is the total number of moves.
	Moves []Move
	Moved int
	// Events are the latest events, the newest last.
	Events []Event
	Hints  Hints

	// Selected is the name of the instance that keys are about, Message the result of the last
	// command.
	Selected, Message string
	// Help is true if the help screen is shown.
	Help bool
}

// The modes of the webhosting example.
const (
	ModeLead      = "lead"
	ModeShard     = "shard"
	ModeInProcess = "in-process"
)

// Ring is the ring of the operator.
type Ring struct {
	Name string
	// Problem is why the ring is not ready, or empty.
	Problem string
}

// LeaseLeft is the state of a Lease that its shard has released, as on a graceful stop.
const LeaseLeft = "left"

// Instance is a process of the operator or the sharder.
type Instance struct {
	Name string
	// Process is the phase of the process: running, paused, waiting, …
	Process string
	// Lease is the state of the shard Lease: ready, expired, …, or LeaseLeft. It is empty if there is none.
	Lease string
	// Leaving is true if the shard hands its objects over in order to stop.
	Leaving bool
	// Removing is true if the instance is being removed by a scale-down.
	Removing bool
	// Stale is true if the Leases were last renewed by an earlier process of the same name.
	Stale bool
	// Candidate is true if the instance takes part in a leader election, Leads if it has won it.
	Candidate, Leads bool

	PID      int
	Since    time.Time
	Restarts int
	// Note is why the process exited last. RestartAt is when it is restarted.
	Note      string
	RestartAt time.Time
	// Objects is the number of objects that it owns, Draining the number of those with the drain
	// label.
	Objects, Draining int
}

// Objects has the numbers of sharded objects.
type Objects struct {
	// Name is the noun for an object, such as website.
	Name                 string
	Total, Ready         int
	Unassigned, Orphaned int
	Draining             int
	// Failed is the number of objects that the operator cannot make ready.
	Failed int
}

// Move is the change of the owner of an object.
type Move struct {
	At               time.Time
	Object, From, To string
}

// Event is an event of a process, a shard, the ring or an object.
type Event struct {
	// Number is a sequence number.
	Number         int
	At             time.Time
	About, Message string
	Warning        bool
}

// Hints are commands for the user.
type Hints struct {
	// Setup is the command that prepares another terminal. Suggestions are commands to try there.
	Setup       string
	Suggestions []Suggestion
	// Pages is the URL of the websites.
	Pages string
}

// Suggestion is a command with a description.
type Suggestion struct{ Command, Description string }
