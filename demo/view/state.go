package view

import "time"

// State is everything that can be seen, at one moment.
type State struct {
	Now time.Time
	// Up is since when the demo is up.
	Up time.Time
	// Kubernetes is its version.
	Kubernetes string
	// Mode is lead, shard or in-process.
	Mode string
	Ring Ring
	// Instances are those of the operator, Sharders the replicas of the external sharder.
	Instances, Sharders []Instance
	Objects             Objects
	// Moves are the last ones, the newest last, Moved is how many there were.
	Moves []Move
	Moved int
	// Events are the last ones, the newest last.
	Events []Event
	Hints  Hints

	// Selected is the name of the instance that keys are about, Answer what came of the last key.
	Selected, Answer string
	// Help is set when somebody wants to see what can be typed, and nothing else.
	Help bool
}

// The modes.
const (
	ModeLead      = "lead"
	ModeShard     = "shard"
	ModeInProcess = "in-process"
)

// Ring is what the instances work on together.
type Ring struct {
	Name string
	// Problem is why the ring is not ready, if it is not.
	Problem string
}

// Instance is a process of the operator or the sharder.
type Instance struct {
	Name string
	// Process is what the process is doing: running, paused, waiting, …
	Process string
	// Lease is the state of its Lease as a shard: ready, expired, … It is empty without one.
	Lease string
	// Leaving is set when it has said that it hands its objects over and goes.
	Leaving bool
	// Dismissed is set when fewer instances are wanted, and it is one too many.
	Dismissed bool
	// Stale is set when what its Leases say is older than its process.
	Stale bool
	// Candidate is set when it takes part in an election, Leads when it has won it.
	Candidate, Leads bool

	PID      int
	Since    time.Time
	Restarts int
	// Note is why it ended the last time, Again when it is started again.
	Note  string
	Again time.Time
	// Objects is how many are its own, Draining how many of them it is to let go.
	Objects, Draining int
}

// Objects counts what is spread.
type Objects struct {
	// Name is what one of them is called.
	Name                               string
	Total, Ready, Unassigned, Draining int
	// Failed is how many the operator can do nothing about before somebody else does.
	Failed int
}

// Move is an object that went from one instance to another.
type Move struct {
	At               time.Time
	Object, From, To string
}

// Event is something that happened.
type Event struct {
	// Number grows from one to the next.
	Number        int
	At            time.Time
	About, What   string
	Warning, Ours bool
}

// Hints are what a person may want to type.
type Hints struct {
	// Setup is to be typed once, Try are things to try, with what they show.
	Setup string
	Try   []Try
	// Pages is where the websites can be seen.
	Pages string
}

// Try is something to try.
type Try struct{ Command, Shows string }
