package operator

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

func TestUpdateStatus(t *testing.T) {
	t.Parallel()
	state := three()
	state.Cluster = 0xabc
	for i := range state.Members {
		state.Members[i].ClientURLs = []string{"http://client-" + state.Members[i].Name}
		state.Members[i].Health.Version = "3.7.0"
	}
	crashes := process("dc1-1", agent.Running)
	crashes.Running, crashes.Problem = false, "etcd has ended (exit status 2), 3. time in a row; its last words: flag provided but not defined: -x"
	running := process("dc1-1", agent.Running)
	running.ClientURL = "http://client-dc1-1"
	type status = etcdclusterv1alpha1.EtcdClusterStatus
	member := etcdclusterv1alpha1.MemberStatus{ID: "dc1-1", PeerURL: "http://dc1-1", ArgsCurrent: true}
	with := func(change func(*etcdclusterv1alpha1.MemberStatus)) []etcdclusterv1alpha1.MemberStatus {
		changed := member
		change(&changed)
		return []etcdclusterv1alpha1.MemberStatus{changed}
	}
	for name, test := range map[string]struct {
		was   status
		state *system.State
		own   agent.Member
		want  status
	}{
		"one that votes": {status{}, state, running, status{
			ClusterID: "abc", Ready: 1, Endpoints: []etcdclusterv1alpha1.ClientURL{"http://client-dc2-1", "http://client-dc3-1"},
			Members: with(func(m *etcdclusterv1alpha1.MemberStatus) {
				m.ClientURL, m.MemberID, m.Phase, m.Healthy, m.Leader, m.Version = "http://client-dc1-1", "1", "Voter", true, true, "3.7.0"
			}),
		}},
		"what is known of the system stays": {
			status{ClusterID: "abc", Endpoints: []etcdclusterv1alpha1.ClientURL{"http://client-dc2-1"}},
			nil, process("dc1-1", agent.Prepared),
			status{
				ClusterID: "abc", Endpoints: []etcdclusterv1alpha1.ClientURL{"http://client-dc2-1"},
				Members: with(func(m *etcdclusterv1alpha1.MemberStatus) {}),
			},
		},
		"one that cannot start says why": {
			status{},
			nil, crashes,
			status{Members: with(func(m *etcdclusterv1alpha1.MemberStatus) { m.Problem = crashes.Problem })},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, test.state, "dc1")
			p.rounds["dc1"].cluster.Status = test.was
			r := p.next("dc1", test.state, test.own)
			r.state = nil
			p.must(r.updateStatus(t.Context()))
			if diff := cmp.Diff(test.want, r.cluster.Status); diff != "" {
				t.Error(diff)
			}
			r.report(nil)
			ready := condition(&r.cluster.Status, etcdclusterv1alpha1.ConditionReady)
			if test.own.Problem != "" && ready.Message != "No member of the system answers. dc1-1: "+test.own.Problem+"." {
				t.Error(ready.Message)
			}
		})
	}
}

// Who could not do something is told apart.
func TestReport(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err                error
		unseen             error
		ready, coordinated string
	}{
		"nothing":           {nil, nil, etcdclusterv1alpha1.ReasonMembersMissing, etcdclusterv1alpha1.ReasonSettled},
		"the store":         {inStore(errors.New("deadline exceeded")), nil, etcdclusterv1alpha1.ReasonMembersMissing, etcdclusterv1alpha1.ReasonStoreUnreachable},
		"the agent refuses": {fromAgent("preparing", agent.ErrInvalid), nil, etcdclusterv1alpha1.ReasonMembersMissing, etcdclusterv1alpha1.ReasonAgentRefused},
		"the agent is away": {fromAgent("preparing", errors.New("refused")), nil, etcdclusterv1alpha1.ReasonAgentUnreachable, ""},
		"the prefix":        {inStore(fmt.Errorf("so: %w", coordination.ErrPrefixTaken)), nil, etcdclusterv1alpha1.ReasonMembersMissing, etcdclusterv1alpha1.ReasonPrefixTaken},
		"something else":    {errors.New("who knows"), nil, etcdclusterv1alpha1.ReasonMembersMissing, etcdclusterv1alpha1.ReasonFailed},
		"another system":    {nil, fmt.Errorf("so: %w", system.ErrOtherSystem), etcdclusterv1alpha1.ReasonOtherSystem, etcdclusterv1alpha1.ReasonSettled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, three(), "dc1")
			r := p.next("dc1", three())
			if r.unseen = test.unseen; r.unseen != nil {
				r.state = nil
			}
			r.report(test.err)
			ready, coordinated := condition(&r.cluster.Status, etcdclusterv1alpha1.ConditionReady), condition(&r.cluster.Status, etcdclusterv1alpha1.ConditionCoordinated)
			if ready.Reason != test.ready || coordinated.Reason != test.coordinated {
				t.Errorf("%s: %s, %s: %s", ready.Reason, ready.Message, coordinated.Reason, coordinated.Message)
			}
		})
	}
}
