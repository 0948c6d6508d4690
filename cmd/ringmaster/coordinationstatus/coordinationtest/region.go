// Package coordinationtest has participants that a test controls, for tests of commands that show a coordination.
package coordinationtest

import (
	"context"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// System is the name of the system that all regions manage.
const System = "store"

// The actions that a region begins, the most urgent first.
const (
	Removal   coordination.Action = "Removal"
	Exclusion coordination.Action = "Exclusion"
	Upgrade   coordination.Action = "Upgrade"
	Restart   coordination.Action = "Restart"
	Inclusion coordination.Action = "Inclusion"
)

// Region is a participant and its coordination.System.
type Region struct {
	*coordination.Coordinator
	Settings coordination.Settings
	// Plans are the steps of the actions that the region begins.
	Plans map[coordination.Action][]coordination.Step
	// Busy makes Execute return NotYet.
	Busy bool
	// Failure makes Execute fail with this reason.
	Failure string

	t     testing.TB
	needs []coordination.Need
}

// Join returns a process of the participant <prefix>-operator. It registers in its first Reconcile.
func Join(t testing.TB, store kv.Store, system, prefix string, clock clock.PassiveClock) *Region {
	t.Helper()
	c, err := coordination.New(coordination.Options{
		Store: store, System: system, Name: prefix + "-operator", SessionDuration: time.Hour, Clock: clock,
		Actions: []coordination.Action{Removal, Exclusion, Upgrade, Restart, Inclusion},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Region{
		Coordinator: c, Settings: coordination.Settings{Mode: coordination.Global, Prefix: prefix},
		Plans: map[coordination.Action][]coordination.Step{}, t: t,
	}
}

// Need declares that a member needs an action.
func (r *Region) Need(action coordination.Action, id coordination.MemberID, ready bool, addresses ...string) {
	r.t.Helper()
	for i, need := range r.needs {
		if need.Action == action && need.Member == id {
			r.needs = append(r.needs[:i], r.needs[i+1:]...)
			break
		}
	}
	r.needs = append(r.needs, coordination.Need{Action: action, Member: id, Ready: ready, Addresses: addresses})
	r.Reconcile()
}

// Begin makes the region begin an action.
func (r *Region) Begin(action coordination.Action, steps ...coordination.Step) {
	r.t.Helper()
	r.Plans[action] = steps
	if result := r.Reconcile(); !result.HoldsLock && result.Intent == nil {
		r.t.Fatalf("the %s did not begin: %v", action, result.WaitReasons)
	}
}

// Reconcile reconciles once. An error fails the test.
func (r *Region) Reconcile() *coordination.Result {
	r.t.Helper()
	result, err := r.Coordinator.Reconcile(r.t.Context(), r.Settings, r)
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

// Needs implements coordination.System.
func (r *Region) Needs(context.Context, *coordination.View) (coordination.Needs, error) {
	needs := coordination.Needs{Pending: r.needs}
	for _, need := range r.needs {
		needs.Members = append(needs.Members, need.Member)
	}
	return needs, nil
}

// Plan implements coordination.System.
func (r *Region) Plan(_ context.Context, proposal coordination.Proposal) ([]coordination.Step, error) {
	return r.Plans[proposal.Action], nil
}

// Execute implements coordination.System.
func (r *Region) Execute(context.Context, coordination.Task) error {
	if r.Busy {
		return coordination.NotYet("it is in progress")
	}
	if r.Failure != "" {
		return coordination.Failed("%s", r.Failure)
	}
	return nil
}

// Healthy implements coordination.System.
func (r *Region) Healthy(context.Context, coordination.Step) error { return nil }
