package examples_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// TestSideBySide runs shards of both examples in one ring. They join, stop, die and hang.
func TestSideBySide(t *testing.T) {
	const n = 30
	f := setUp(t)
	f.startSharder()
	killed, stopped, plain := f.startBudget("budget-0", shardRole), f.startBudget("budget-1", shardRole), f.startPlain("plain-0", shardRole)
	f.awaitMembers(3)
	f.deploy(0, n)
	s := f.awaitSettled(n, "budget-0", "budget-1", "plain-0")

	t.Log("The owner repairs changed and deleted budgets")
	for _, shard := range []string{"budget-0", "budget-1", "plain-0"} {
		f.spoil(s, s.one(shard))
		s = f.awaitSettled(n, "budget-0", "budget-1", "plain-0")
	}

	t.Log("A new shard gets Deployments together with their budgets")
	recording := f.startRecording()
	hanging := f.startPlain("plain-1", shardRole)
	f.awaitMembers(4)
	s = f.awaitSettled(n, "budget-0", "budget-1", "plain-0", "plain-1")
	f.Expect(recording.handovers(f)).To(Equal(countOf(s, "plain-1")), "all of its objects were released to it, budgets first")

	t.Log("A drained object that is assigned to the same shard again is reconciled")
	for _, shard := range []string{"budget-1", "plain-1"} {
		name := s.one(shard)
		f.kubectl("label", "deployment", "-n", f.Namespace, name, labelDrain+"=true")
		s = f.awaitSettled(n, "budget-0", "budget-1", "plain-0", "plain-1")
		f.Expect(s.deployments[name].Labels).To(HaveKeyWithValue(labelShard, shard))
		f.spoil(s, name)
	}

	t.Log("One shard dies, and two stop")
	f.Expect(killed.Kill()).To(Succeed())
	f.deploy(n, 5)
	f.awaitSettled(n+5, "budget-1", "plain-0", "plain-1")
	f.stopShard(stopped)
	f.awaitSettled(n+5, "plain-0", "plain-1")
	f.startBudget("budget-2", shardRole)
	f.awaitMembers(3)
	f.stopShard(plain)
	s = f.awaitSettled(n+5, "budget-2", "plain-1")
	for _, shard := range []string{"budget-2", "plain-1"} {
		f.spoil(s, s.one(shard))
	}
	f.awaitSettled(n+5, "budget-2", "plain-1")

	t.Log("A shard hangs for longer than its Lease, and exits when it resumes")
	f.Expect(hanging.Pause()).To(Succeed())
	f.awaitSettled(n+5, "budget-2")
	f.Expect(hanging.Resume()).To(Succeed())
	f.Expect(f.waitForExit(hanging)).NotTo(Succeed())
	f.Expect(hanging.Tail(1)).To(HaveSuffix(shard.ErrLeaseLost.Error()))
	f.awaitSettled(n+5, "budget-2")
}

// TestShardWithoutPermissionsDoesNotJoin starts shards without permission to read Deployments. They must not get any.
func TestShardWithoutPermissionsDoesNotJoin(t *testing.T) {
	f := setUp(t)
	const role = "examples/testdata/blind-role.yaml"
	blind := []*rig.Running{f.startBudget("budget", role), f.startPlain("plain", role)}
	for _, p := range blind {
		f.Eventually(func() string { return p.Tail(100) }).Should(ContainSubstring("cannot list resource"))
	}
	f.Consistently(func() int {
		leases, err := f.Clientset.CoordinationV1().Leases(f.Namespace).List(t.Context(), metav1.ListOptions{})
		f.Expect(err).NotTo(HaveOccurred())
		return len(leases.Items)
	}, "2s").Should(BeZero())
	for _, p := range blind {
		f.Expect(p.Terminate()).To(Succeed())
		f.Expect(f.waitForExit(p)).To(Succeed())
	}
}

func countOf(s state, shard string) (n int) {
	for _, deployment := range s.deployments {
		if deployment.Labels[labelShard] == shard {
			n++
		}
	}
	return n
}

// spoil deletes a budget, and changes another one of the same shard, if any.
func (f *fixture) spoil(s state, name string) {
	f.t.Helper()
	deleted := s.budgets[name]
	f.Expect(f.Client.Delete(f.t.Context(), deleted)).To(Succeed())
	for _, budget := range s.budgets {
		if budget.Labels[labelShard] != deleted.Labels[labelShard] || budget.Name == name {
			continue
		}
		all := intstr.FromString("100%")
		budget.Spec = policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{}}
		f.Expect(f.Client.Update(f.t.Context(), budget)).To(Succeed())
		break
	}
	// The new budget has another UID than the one in s.
	f.Eventually(func(g Gomega) types.UID {
		budget := &policyv1.PodDisruptionBudget{}
		g.Expect(f.Client.Get(context.Background(), client.ObjectKeyFromObject(deleted), budget)).To(Succeed())
		return budget.UID
	}).ShouldNot(Equal(deleted.UID))
}

// stopShard stops a shard gracefully, and checks that it has released its Lease.
func (f *fixture) stopShard(p *rig.Running) {
	f.t.Helper()
	f.Expect(p.Terminate()).To(Succeed())
	f.Expect(f.waitForExit(p)).To(Succeed())
	lease := &coordinationv1.Lease{}
	f.Expect(f.Client.Get(f.t.Context(), client.ObjectKey{Namespace: f.Namespace, Name: p.Name()}, lease)).To(Succeed())
	f.Expect(*lease.Spec.HolderIdentity).To(BeEmpty())
}

// waitForExit waits until a process has ended, and returns its error.
func (f *fixture) waitForExit(p *rig.Running) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), timeout)
	defer cancel()
	return p.Wait(ctx)
}
