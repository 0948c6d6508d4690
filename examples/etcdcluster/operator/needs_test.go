package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// need returns a need that is ready, pending one that is not.
func need(action coordination.Action, id string, addresses ...string) coordination.Need {
	return coordination.Need{Action: action, Member: coordination.MemberID(id), Ready: true, Addresses: addresses}
}

func pending(action coordination.Action, id string, addresses ...string) coordination.Need {
	return coordination.Need{Action: action, Member: coordination.MemberID(id), Addresses: addresses}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	type spec = etcdclusterv1alpha1.EtcdClusterSpec
	type all = []coordination.Need
	removing := func(id string) map[string]bool { return map[string]bool{id: true} }
	replaced := []etcdclusterv1alpha1.MemberID{"dc1-1"}
	withArgs := agent.Member{ID: "dc1-1", Phase: agent.Running, Args: map[string]string{"a": "2"}, Applied: map[string]string{"a": "1"}}
	for name, test := range map[string]struct {
		spec      spec
		processes map[string]agent.Member
		state     *system.State
		want      needs
	}{
		"the first members": {spec{ProcessGroupIDPrefix: "dc1", Members: 2}, nil, nil, needs{create: []string{"dc1-1", "dc1-2"}}},
		"one more, with a number that was never used": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 2},
			processes(process("dc1-7", agent.Running)), stateOf(member(1, "dc1-7")),
			needs{create: []string{"dc1-8"}},
		},
		"one that is prepared has to be included": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1},
			processes(process("dc1-1", agent.Prepared)), stateOf(member(1, "dc2-1")),
			needs{pending: all{need(Inclusion, "dc1-1", "http://dc1-1")}},
		},
		"one that its agent does not take as it is wanted is not ready, and nobody goes for it": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Version: "3.0.1", Replace: replaced},
			processes(process("dc1-1", agent.Running), process("dc1-2", agent.Prepared)), stateOf(member(1, "dc1-1")),
			needs{outdated: []string{"dc1-2"}, removing: removing("dc1-1"), pending: all{
				pending(Exclusion, "dc1-1", "http://dc1-1"), pending(Inclusion, "dc1-2", "http://dc1-2"),
			}},
		},
		"one that learns has to be included": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1},
			processes(process("dc1-1", agent.Running)), stateOf(member(1, "dc2-1"), learner(2, "dc1-1")),
			needs{pending: all{need(Inclusion, "dc1-1", "http://dc1-1")}},
		},
		"nothing is wanted of a system that does not answer": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1}, processes(process("dc1-1", agent.Prepared)), nil, needs{},
		},
		"a replaced member waits for its replacement": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Replace: replaced},
			processes(process("dc1-1", agent.Running)), stateOf(member(1, "dc1-1")),
			needs{create: []string{"dc1-2"}, removing: removing("dc1-1"), pending: all{pending(Exclusion, "dc1-1", "http://dc1-1")}},
		},
		"a replaced member is ready when its replacement is prepared": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Replace: replaced},
			processes(process("dc1-1", agent.Running), process("dc1-2", agent.Prepared)), stateOf(member(1, "dc1-1")),
			needs{removing: removing("dc1-1"), pending: all{
				need(Exclusion, "dc1-1", "http://dc1-1"), need(Inclusion, "dc1-2", "http://dc1-2"),
			}},
		},
		"of too many the youngest goes": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1},
			processes(process("dc1-9", agent.Running), process("dc1-10", agent.Running)),
			stateOf(member(1, "dc1-9"), member(2, "dc1-10")),
			needs{removing: removing("dc1-10"), pending: all{need(Exclusion, "dc1-10", "http://dc1-10")}},
		},
		"of too many one goes that has no vote": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1},
			processes(process("dc1-1", agent.Prepared), process("dc1-2", agent.Running)), stateOf(member(1, "dc1-2")),
			needs{removing: removing("dc1-1"), pending: all{need(Exclusion, "dc1-1", "http://dc1-1")}},
		},
		"one that has gone is stopped": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Replace: replaced},
			processes(process("dc1-1", agent.Running), process("dc1-2", agent.Running)), stateOf(member(1, "dc1-2")),
			needs{removing: removing("dc1-1"), pending: all{need(Exclusion, "dc1-1", "http://dc1-1")}},
		},
		"one that could not be deleted is tried again": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1},
			processes(process("dc1-1", agent.Deleting), process("dc1-2", agent.Running)), stateOf(member(1, "dc1-2")),
			needs{removing: removing("dc1-1"), pending: all{need(Exclusion, "dc1-1", "http://dc1-1")}},
		},
		"one that was removed can never come back": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1},
			processes(process("dc1-1", agent.Running)), stateOf(member(1, "dc2-1")),
			needs{create: []string{"dc1-2"}, removing: removing("dc1-1"), pending: all{need(Exclusion, "dc1-1", "http://dc1-1")}},
		},
		"one that learns and cannot start with what it has is replaced": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Version: "3.6.1"},
			processes(process("dc1-1", agent.Running)),
			stateOf(member(1, "dc2-1"), unhealthyMember(learner(2, "dc1-1"))),
			needs{create: []string{"dc1-2"}, removing: removing("dc1-1"), pending: all{pending(Exclusion, "dc1-1", "http://dc1-1")}},
		},
		"another version has to be given to it first": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Version: "3.6.1"},
			processes(process("dc1-1", agent.Running)), stateOf(member(1, "dc1-1")),
			needs{outdated: []string{"dc1-1"}, pending: all{pending(Restart, "dc1-1")}},
		},
		"other arguments have to be given to it first": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Args: map[string]etcdclusterv1alpha1.ArgValue{"a": "3"}},
			processes(withArgs), stateOf(member(1, "dc1-1")),
			needs{outdated: []string{"dc1-1"}, pending: all{pending(Restart, "dc1-1")}},
		},
		"other arguments are there for the restart": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Args: map[string]etcdclusterv1alpha1.ArgValue{"a": "2"}},
			processes(withArgs), stateOf(member(1, "dc1-1")),
			needs{pending: all{need(Restart, "dc1-1")}},
		},
		"members of a lost region have to be removed, and of no region that begins like it": {
			spec{ProcessGroupIDPrefix: "dc1", LostRegions: []etcdclusterv1alpha1.Prefix{"dc3"}},
			nil,
			stateOf(member(1, "dc2-1"), unhealthyMember(member(2, "dc3-1")), member(3, "dc30-1")),
			needs{pending: all{need(Removal, "dc3-1")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decide(&test.spec, test.processes, test.state, false)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(needs{}), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A region that has lost all of its members.
func TestNeedsOfLostRegion(t *testing.T) {
	t.Parallel()
	one := etcdclusterv1alpha1.EtcdClusterSpec{ProcessGroupIDPrefix: "dc1", Members: 1}
	create := []string{"dc1-2"}
	for name, test := range map[string]struct {
		state  *system.State
		joined bool
		want   needs
	}{
		"it waits until it knows which IDs are used": {nil, true, needs{}},
		"what the agent has lost is removed, and its ID not used again": {
			stateOf(member(2, "dc2-1"), unhealthyMember(member(1, "dc1-1"))), true, needs{create: create, pending: []coordination.Need{need(Removal, "dc1-1")}},
		},
		"what is well is not removed":                     {stateOf(member(2, "dc2-1"), member(1, "dc1-1")), true, needs{create: create}},
		"what another one has of its name is not removed": {stateOf(member(2, "dc2-1"), unhealthyMember(member(1, "dc1-1"))), false, needs{create: create}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decide(&one, nil, test.state, test.joined)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(needs{}), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
