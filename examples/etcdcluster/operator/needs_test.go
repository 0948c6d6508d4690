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

// process is a member that the agent knows.
func process(id string, phase agent.Phase) agent.Member {
	return agent.Member{ID: id, Phase: phase, PeerURL: "http://" + id, Running: phase == agent.Running}
}

func processes(all ...agent.Member) map[string]agent.Member {
	found := map[string]agent.Member{}
	for _, p := range all {
		found[p.ID] = p
	}
	return found
}

// member is one that the system knows, and that is well.
func member(id system.ID, name string) system.Member {
	return system.Member{ID: id, Name: name, PeerURLs: []string{"http://" + name}, Health: system.Health{Reachable: true, Leader: 1}}
}

func learner(id system.ID, name string) system.Member {
	m := member(id, name)
	m.Learner = true
	return m
}

func sick(m system.Member) system.Member {
	m.Health = system.Health{Problem: "it does not answer"}
	return m
}

func agreed(members ...system.Member) *system.State {
	return &system.State{Agreed: true, Leader: 1, Members: members}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	type spec = etcdclusterv1alpha1.EtcdClusterSpec
	pendingRestart := coordination.Wants{coordination.PendingForRestart: {"dc1-1": nil}}
	for name, test := range map[string]struct {
		spec      spec
		processes map[string]agent.Member
		state     *system.State
		want      needs
	}{
		"the first members": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 2}, nil, nil, needs{create: []string{"dc1-1", "dc1-2"}},
		},
		"one more, with a number that was never used": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 2},
			processes(process("dc1-7", agent.Running)), agreed(member(1, "dc1-7")),
			needs{create: []string{"dc1-8"}},
		},
		"one that is prepared has to be included": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1},
			processes(process("dc1-1", agent.Prepared)), agreed(member(1, "dc2-1")),
			needs{wants: coordination.Wants{coordination.PendingForInclusion: {"dc1-1": nil}, coordination.ReadyForInclusion: {"dc1-1": {"http://dc1-1"}}}},
		},
		"one that its agent does not take as it is wanted is not ready, and nobody goes for it": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Version: "3.0.1", Replace: []etcdclusterv1alpha1.MemberID{"dc1-1"}},
			processes(process("dc1-1", agent.Running), process("dc1-2", agent.Prepared)), agreed(member(1, "dc1-1")),
			needs{
				arm: []string{"dc1-2"}, removing: map[string]bool{"dc1-1": true},
				wants: coordination.Wants{
					coordination.PendingForRemoval: {"dc1-1": nil}, coordination.PendingForExclusion: {"dc1-1": nil}, coordination.PendingForInclusion: {"dc1-2": nil},
				},
			},
		},
		"one that learns has to be included": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1},
			processes(process("dc1-1", agent.Running)), agreed(member(1, "dc2-1"), learner(2, "dc1-1")),
			needs{wants: coordination.Wants{coordination.PendingForInclusion: {"dc1-1": nil}, coordination.ReadyForInclusion: {"dc1-1": {"http://dc1-1"}}}},
		},
		"nothing is wanted of a system that does not answer": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1}, processes(process("dc1-1", agent.Prepared)), nil, needs{},
		},
		"one that is to be replaced waits for the other one": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Replace: []etcdclusterv1alpha1.MemberID{"dc1-1"}},
			processes(process("dc1-1", agent.Running)), agreed(member(1, "dc1-1")),
			needs{
				create: []string{"dc1-2"}, removing: map[string]bool{"dc1-1": true},
				wants: coordination.Wants{coordination.PendingForRemoval: {"dc1-1": nil}, coordination.PendingForExclusion: {"dc1-1": nil}},
			},
		},
		"one that is to be replaced is ready when the other one is prepared": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Replace: []etcdclusterv1alpha1.MemberID{"dc1-1"}},
			processes(process("dc1-1", agent.Running), process("dc1-2", agent.Prepared)), agreed(member(1, "dc1-1")),
			needs{
				removing: map[string]bool{"dc1-1": true},
				wants: coordination.Wants{
					coordination.PendingForRemoval: {"dc1-1": nil}, coordination.PendingForExclusion: {"dc1-1": nil},
					coordination.ReadyForExclusion: {"dc1-1": {"http://dc1-1"}}, coordination.PendingForInclusion: {"dc1-2": nil},
					coordination.ReadyForInclusion: {"dc1-2": {"http://dc1-2"}},
				},
			},
		},
		"of too many the youngest goes": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1},
			processes(process("dc1-9", agent.Running), process("dc1-10", agent.Running)),
			agreed(member(1, "dc1-9"), member(2, "dc1-10")),
			needs{
				removing: map[string]bool{"dc1-10": true},
				wants: coordination.Wants{
					coordination.PendingForRemoval: {"dc1-10": nil}, coordination.PendingForExclusion: {"dc1-10": nil},
					coordination.ReadyForExclusion: {"dc1-10": {"http://dc1-10"}},
				},
			},
		},
		"of too many one goes that has no vote": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1},
			processes(process("dc1-1", agent.Prepared), process("dc1-2", agent.Running)), agreed(member(1, "dc1-2")),
			needs{removing: map[string]bool{"dc1-1": true}, discard: []string{"dc1-1"}},
		},
		"one that has gone is discarded": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Replace: []etcdclusterv1alpha1.MemberID{"dc1-1"}},
			processes(process("dc1-1", agent.Running), process("dc1-2", agent.Running)), agreed(member(1, "dc1-2")),
			needs{removing: map[string]bool{"dc1-1": true}, discard: []string{"dc1-1"}},
		},
		"one that could not be deleted is tried again": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1},
			processes(process("dc1-1", agent.Deleting), process("dc1-2", agent.Running)), agreed(member(1, "dc1-2")),
			needs{removing: map[string]bool{"dc1-1": true}, discard: []string{"dc1-1"}},
		},
		"one that was removed can never come back": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1},
			processes(process("dc1-1", agent.Running)), agreed(member(1, "dc2-1")),
			needs{create: []string{"dc1-2"}, removing: map[string]bool{"dc1-1": true}, discard: []string{"dc1-1"}},
		},
		"one that learns and cannot start is given something else": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Version: "3.6.1"},
			processes(agent.Member{ID: "dc1-1", Phase: agent.Running, PeerURL: "http://dc1-1", Version: "3.6.1"}),
			agreed(member(1, "dc2-1"), learner(2, "dc1-1")),
			needs{wants: coordination.Wants{
				coordination.PendingForInclusion: {"dc1-1": nil}, coordination.ReadyForInclusion: {"dc1-1": {"http://dc1-1"}},
				coordination.PendingForRestart: {"dc1-1": nil}, coordination.ReadyForRestart: {"dc1-1": nil},
			}},
		},
		"another version has to be given to it first": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Version: "3.6.1"},
			processes(process("dc1-1", agent.Running)), agreed(member(1, "dc1-1")),
			needs{arm: []string{"dc1-1"}, wants: pendingRestart},
		},
		"other arguments have to be given to it first": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Args: map[string]etcdclusterv1alpha1.ArgValue{"a": "2"}},
			processes(agent.Member{ID: "dc1-1", Phase: agent.Running, Args: map[string]string{"a": "1"}, Applied: map[string]string{"a": "1"}}),
			agreed(member(1, "dc1-1")),
			needs{arm: []string{"dc1-1"}, wants: pendingRestart},
		},
		"other arguments are there for the restart": {
			spec{ProcessGroupIDPrefix: "dc1", Members: 1, Args: map[string]etcdclusterv1alpha1.ArgValue{"a": "2"}},
			processes(agent.Member{ID: "dc1-1", Phase: agent.Running, Args: map[string]string{"a": "2"}, Applied: map[string]string{"a": "1"}}),
			agreed(member(1, "dc1-1")),
			needs{wants: coordination.Wants{coordination.PendingForRestart: {"dc1-1": nil}, coordination.ReadyForRestart: {"dc1-1": nil}}},
		},
		"members of a lost region have to be removed, and of no region that begins like it": {
			spec{ProcessGroupIDPrefix: "dc1", LostRegions: []etcdclusterv1alpha1.Prefix{"dc3"}},
			nil,
			agreed(member(1, "dc2-1"), sick(member(2, "dc3-1")), member(3, "dc30-1")),
			needs{wants: coordination.Wants{coordination.PendingForRemoval: {"dc3-1": nil}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decide(&test.spec, test.processes, test.state, heard{})
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(needs{}), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A region that has lost all of its own, or sees what others have left behind.
func TestNeedsLost(t *testing.T) {
	t.Parallel()
	one := etcdclusterv1alpha1.EtcdClusterSpec{ProcessGroupIDPrefix: "dc1", Members: 1}
	comes := learner(9, "")
	comes.PeerURLs = []string{"http://dc3-2"}
	removal := func(id coordination.MemberID) coordination.Wants {
		return coordination.Wants{coordination.PendingForRemoval: {id: nil}}
	}
	for name, test := range map[string]struct {
		processes map[string]agent.Member
		state     *system.State
		heard     heard
		want      needs
	}{
		"it waits until it knows which IDs are used": {nil, nil, heard{joined: true}, needs{}},
		"what the agent has lost is removed, and its ID not used again": {
			nil, agreed(member(2, "dc2-1"), sick(member(1, "dc1-1"))), heard{joined: true}, needs{create: []string{"dc1-2"}, wants: removal("dc1-1")},
		},
		"what is well is not removed": {
			nil, agreed(member(2, "dc2-1"), member(1, "dc1-1")), heard{joined: true}, needs{create: []string{"dc1-2"}},
		},
		"what another one has of its name is not removed": {
			nil, agreed(member(2, "dc2-1"), sick(member(1, "dc1-1"))), heard{}, needs{create: []string{"dc1-2"}},
		},
		"a learner that nobody claims is removed": {
			processes(process("dc1-1", agent.Running)), agreed(member(1, "dc1-1"), comes), heard{claims: map[string]bool{}}, needs{wants: removal("learner:9")},
		},
		"a learner that somebody claims is not": {
			processes(process("dc1-1", agent.Running)), agreed(member(1, "dc1-1"), comes), heard{claims: map[string]bool{"http://dc3-2": true}}, needs{},
		},
		"nor one that somebody may claim who was not heard": {
			processes(process("dc1-1", agent.Running)), agreed(member(1, "dc1-1"), comes), heard{}, needs{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decide(&one, test.processes, test.state, test.heard)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(needs{}), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
