package view

import (
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
)

// Regions is the state, at one moment, of an etcd cluster with members in several regions, each
// with its own operator.
type Regions struct {
	Now time.Time
	// StartedAt is when the demo was started.
	StartedAt time.Time
	// Kubernetes is the version of the API server.
	Kubernetes string
	// Mode is global or local, System the name of the etcd cluster.
	Mode, System string
	Regions      []Region
	Coordination coordinationstatus.Summary
	Clients      Clients
	// Events are the latest events, the newest last.
	Events []Event
	Hints  Hints

	// Selected is the name of the process that keys are about, Message the result of the last
	// command.
	Selected, Message string
	// Help is true if the help screen is shown.
	Help bool
}

// The modes of the etcdcluster example.
const (
	ModeLocal  = "local"
	ModeGlobal = "global"
)

// Region is the state of one region.
type Region struct {
	Name string
	// Mode is the mode of the region, which may differ from that of the demo.
	Mode string
	// Operator is the operator of the region, Agent runs its members.
	Operator, Agent Instance
	// Desired is the desired number of members, Ready the number of healthy voting members.
	Desired, Ready int
	// Reconciled is true if the region has its desired state, and no action is in progress.
	Reconciled bool
	// Waiting has the wait reasons of the operator, as in its status.
	Waiting string
	Members []Member
}

// Member is a member of the etcd cluster.
type Member struct {
	ID string
	// Phase is Prepared, Learner, Voter, …
	Phase           string
	Healthy, Leader bool
	// ArgsCurrent is true if the member runs with the desired arguments, Removing if it is being
	// removed.
	ArgsCurrent, Removing bool
	PID                   int
	Since                 time.Time
	Args                  string
}

// Clients is the state of the etcd cluster that its clients observe.
type Clients struct {
	// Problem is the error of the last write, or empty.
	Problem string
	// Writes is the number of acknowledged writes, Failed the number of failed ones, Slow the
	// number of those that took longer than SlowWrite.
	Writes, Failed, Slow int
	// Slowest is the latency of the slowest write of the last minute.
	Slowest time.Duration
	// Elections is the number of changes of the leader.
	Elections int
}

// SlowWrite is the latency above which a write counts as slow.
const SlowWrite = 100 * time.Millisecond

// AllReconciled returns true if all regions have their desired state.
func (s *Regions) AllReconciled() bool {
	return len(s.Regions) > 0 && !slices.ContainsFunc(s.Regions, func(r Region) bool { return !r.Reconciled })
}

// voters returns the number of healthy voting members, and the desired number of members.
func (s *Regions) voters() (ready, desired int) {
	for _, region := range s.Regions {
		ready, desired = ready+region.Ready, desired+region.Desired
	}
	return ready, desired
}

// leader returns the ID of the member that leads, or an empty string.
func (s *Regions) leader() string {
	for _, region := range s.Regions {
		for _, member := range region.Members {
			if member.Leader {
				return member.ID
			}
		}
	}
	return ""
}
