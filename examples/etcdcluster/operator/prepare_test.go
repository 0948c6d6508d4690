package operator

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
)

// The first member starts a system only where there never was one, whatever its agent has lost.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	prepared := process("dc1-1", agent.Prepared)
	for name, test := range map[string]struct {
		bootstrap bool
		was       string
		state     *system.State
		own       []agent.Member
		did       []string
	}{
		"the first one":                      {true, "", nil, []agent.Member{prepared}, []string{"start dc1-1 new"}},
		"another region does it":             {false, "", nil, []agent.Member{prepared}, nil},
		"it is not prepared yet":             {true, "", nil, nil, []string{"prepare dc1-1", "args dc1-1 map[]"}},
		"there is a system":                  {true, "", agreed(member(2, "dc2-1")), []agent.Member{prepared}, nil},
		"there was a system, out of sight":   {true, "8e9e", nil, []agent.Member{prepared}, nil},
		"there was a system, all is lost":    {true, "8e9e", nil, nil, nil},
		"there is a system, all is lost":     {true, "8e9e", agreed(member(2, "dc2-1"), sick(member(1, "dc1-1"))), nil, []string{"prepare dc1-2", "args dc1-2 map[]"}},
		"there was one, of which one is off": {true, "", nil, []agent.Member{process("dc1-1", agent.Stopped)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, test.state, "dc1")
			r := p.rounds["dc1"]
			r.cluster.Spec.Bootstrap, r.cluster.Status.ClusterID = test.bootstrap, test.was
			r = p.next("dc1", test.state, test.own...)
			p.must(r.prepare(t.Context()))
			if diff := cmp.Diff(test.did, r.agent.(*fakeAgent).made); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What the agent does not do to one member keeps the operator from nothing else, and is told.
func TestPrepareGoesOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		reason string
	}{
		"the agent refuses":         {agent.ErrInvalid, etcdclusterv1alpha1.ReasonAgentRefused},
		"the agent does not answer": {errors.New("connection refused"), etcdclusterv1alpha1.ReasonAgentUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, nil, "dc1")
			p.rounds["dc1"].cluster.Spec.Members = 2
			r := p.next("dc1", nil)
			r.agent.(*fakeAgent).refuses = test.err
			p.must(r.prepare(t.Context()))
			if diff := cmp.Diff([]string{"prepare dc1-1", "prepare dc1-2"}, r.agent.(*fakeAgent).made); diff != "" {
				t.Error(diff)
			}
			r.report(r.failed)
			ready, coordinated := condition(&r.cluster.Status, etcdclusterv1alpha1.ConditionReady), condition(&r.cluster.Status, etcdclusterv1alpha1.ConditionCoordinated)
			if ready.Reason != test.reason && coordinated.Reason != test.reason {
				t.Errorf("%s: %s, %s: %s", ready.Reason, ready.Message, coordinated.Reason, coordinated.Message)
			}
		})
	}
}

// Another version is given to a member with its arguments.
func TestArm(t *testing.T) {
	t.Parallel()
	p := setting(t, three(), "dc1")
	p.rounds["dc1"].cluster.Spec.Version = "3.6.1"
	r := p.next("dc1", three(), process("dc1-1", agent.Running))
	p.must(r.prepare(t.Context()))
	if diff := cmp.Diff([]string{"version dc1-1 3.6.1", "args dc1-1 map[]"}, r.agent.(*fakeAgent).made); diff != "" {
		t.Error(diff)
	}
}

// The system is looked for where it was seen last, and only members of this system are the region's.
func TestSee(t *testing.T) {
	t.Parallel()
	p := setting(t, three(), "dc1")
	own, other := process("dc1-1", agent.Running), process("dc1-2", agent.Running)
	own.System, own.ClientURL, other.System = "orders", "http://own", "payments"
	r := p.next("dc1", three(), own, other)
	r.cluster.Spec.Seeds = []etcdclusterv1alpha1.ClientURL{"http://seed"}
	r.cluster.Status.Endpoints = []etcdclusterv1alpha1.ClientURL{"http://dc2-1", "http://seed"}
	p.must(r.seeProcesses(t.Context()))
	if diff := cmp.Diff(processes(own), r.processes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"http://dc2-1", "http://own", "http://seed"}, r.seeds()); diff != "" {
		t.Error(diff)
	}
}
