package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/plan"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

func TestOperatorCoordination(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*etcdclusterv1alpha1.EtcdClusterSpec)
		state  *system.State
		// takes are the prefixes that take part afterwards, and pending what dc1 wants restarted.
		takes, pending []string
		acts           bool
	}{
		"it tells what it needs":                 {func(*etcdclusterv1alpha1.EtcdClusterSpec) {}, three(), []string{"dc1", "dc2"}, []string{"dc1-1"}, true},
		"nothing is known of the system":         {func(*etcdclusterv1alpha1.EtcdClusterSpec) {}, nil, []string{"dc1", "dc2"}, nil, true},
		"it goes local, and others may go on":    {func(s *etcdclusterv1alpha1.EtcdClusterSpec) { s.AutomationOptions.SynchronizationMode = "local" }, three(), []string{"dc2"}, nil, false},
		"its prefix changes, and all goes along": {func(s *etcdclusterv1alpha1.EtcdClusterSpec) { s.ProcessGroupIDPrefix = "dc1x" }, three(), []string{"dc1x", "dc2"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setting(t, three(), "dc1", "dc2")
			p.says("dc2", restarts("dc2-1"))
			p.acts("dc1", coordination.Restart, order(plan.Restart, "dc2-1"))
			test.change(&p.rounds["dc1"].cluster.Spec)
			r := p.next("dc1", test.state, changedArgs("dc1-1"))
			p.must(r.operatorCoordination(t.Context()))
			view, err := coordination.Look(t.Context(), p.store, "", "orders")
			p.must(err)
			var takes, pending []string
			for _, instance := range view.Instances {
				takes = append(takes, instance.Prefix)
			}
			for id, entry := range view.Sets[coordination.PendingForRestart] {
				if entry.Prefix != "dc2" {
					pending = append(pending, string(id))
				}
			}
			if diff := cmp.Diff(test.takes, takes); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.pending, pending); diff != "" {
				t.Error(diff)
			}
			if acts := r.task != nil; acts != test.acts {
				t.Errorf("it acts: %t", acts)
			}
			if view.Intent == nil {
				t.Error("nobody can go on with what it did")
			}
		})
	}
}

// What a region had said that does not return is removed, also if that was nothing but that it was there.
func TestForgetLost(t *testing.T) {
	t.Parallel()
	p := setting(t, three(), "dc1", "dc2")
	p.says("dc2", restarts("dc2-1"))
	p.says("dc2", nil)
	p.must(p.rounds["dc2"].c.Close(t.Context()))
	p.rounds["dc1"].cluster.Spec.LostRegions = []etcdclusterv1alpha1.Prefix{"dc2"}
	r := p.next("dc1", three(), process("dc1-1", agent.Running))
	if left := r.view.Left(); len(left) != 1 {
		t.Fatalf("left: %v", left)
	}
	p.must(r.operatorCoordination(t.Context()))
	p.must(r.look(t.Context()))
	if left := r.view.Left(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
