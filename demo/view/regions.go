package view

import (
	"time"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
)

// Regions is everything that can be seen, at one moment, of a system whose members are in several regions, each with an
// operator of its own.
type Regions struct {
	Now time.Time
	// Up is since when the demo is up.
	Up time.Time
	// Kubernetes is its version.
	Kubernetes string
	// Mode is global or local, System the name of what is managed.
	Mode, System string
	Regions      []Region
	Agreement    coordinationstatus.Summary
	Clients      Clients
	// Events are the last ones, the newest last.
	Events []Event
	Hints  Hints

	// Selected is the name of the process that keys are about, Answer what came of the last key.
	Selected, Answer string
	// Help is set when somebody wants to see what can be typed, and nothing else.
	Help bool
}

// The modes.
const (
	ModeLocal  = "local"
	ModeGlobal = "global"
)

// Region is one of them.
type Region struct {
	Name string
	// Mode is the one that it is in, which may be another than the demo began with.
	Mode string
	// Operator decides, Agent runs the members.
	Operator, Agent Instance
	// Wanted is how many members it is to have, Ready how many of them are well and vote.
	Wanted, Ready int
	// Settled is set when it has what it should have, and nothing is being done there.
	Settled bool
	// Waiting is what its operator says that it waits for.
	Waiting string
	Members []Member
}

// Member is a process of the system.
type Member struct {
	ID string
	// Phase is Prepared, Learner, Voter, …
	Phase           string
	Healthy, Leader bool
	// ArgsCurrent is set when it has the arguments that are wanted, Removing when it has to go.
	ArgsCurrent, Removing bool
	PID                   int
	Since                 time.Time
	Args                  string
}

// Clients are what those notice who use the system.
type Clients struct {
	// Problem is why nobody could use it a moment ago, if so.
	Problem string
	// Writes is how many were acknowledged, Failed how many were not, Slow how many took longer than SlowWrite.
	Writes, Failed, Slow int
	// Slowest is how long the slowest of the last minute took.
	Slowest time.Duration
	// Elections is how often another member has begun to lead.
	Elections int
}

// SlowWrite is when somebody notices.
const SlowWrite = 100 * time.Millisecond
