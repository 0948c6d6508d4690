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

// TestSideBySide has instances of both examples share the work, and lets them come, go and die.
func TestSideBySide(t *testing.T) {
	const n = 30
	f := setUp(t)
	f.startSharder()
	killed, stopped, plain := f.startBudget("budget-0", shardRole), f.startBudget("budget-1", shardRole), f.startPlain("plain-0", shardRole)
	f.members(3)
	f.deploy(0, n)
	s := f.settled(n, "budget-0", "budget-1", "plain-0")

	t.Log("What is done to a budget is put right by the shard that has it")
	for _, shard := range []string{"budget-0", "budget-1", "plain-0"} {
		f.spoil(s, s.one(shard))
		s = f.settled(n, "budget-0", "budget-1", "plain-0")
	}

	t.Log("A shard that joins is handed Deployments, with their budgets")
	seen := f.record()
	hanging := f.startPlain("plain-1", shardRole)
	f.members(4)
	s = f.settled(n, "budget-0", "budget-1", "plain-0", "plain-1")
	f.Expect(seen.handedOver(f)).To(Equal(countOf(s, "plain-1")), "all of its objects came to it by hand, budgets first")

	t.Log("A shard that is asked to let go, and gets the object back in the same write, goes on")
	for _, shard := range []string{"budget-1", "plain-1"} {
		name := s.one(shard)
		f.kubectl("label", "deployment", "-n", f.Namespace, name, labelDrain+"=true")
		s = f.settled(n, "budget-0", "budget-1", "plain-0", "plain-1")
		f.Expect(s.deployments[name].Labels).To(HaveKeyWithValue(labelShard, shard))
		f.spoil(s, name)
	}

	t.Log("A shard that dies, and two that leave")
	f.Expect(killed.Kill()).To(Succeed())
	f.deploy(n, 5)
	f.settled(n+5, "budget-1", "plain-0", "plain-1")
	f.leave(stopped)
	f.settled(n+5, "plain-0", "plain-1")
	f.startBudget("budget-2", shardRole)
	f.members(3)
	f.leave(plain)
	s = f.settled(n+5, "budget-2", "plain-1")
	for _, shard := range []string{"budget-2", "plain-1"} {
		f.spoil(s, s.one(shard))
	}
	f.settled(n+5, "budget-2", "plain-1")

	t.Log("A shard that hangs, and ends when it wakes up")
	f.Expect(hanging.Pause()).To(Succeed())
	f.settled(n+5, "budget-2")
	f.Expect(hanging.Resume()).To(Succeed())
	f.Expect(f.end(hanging)).NotTo(Succeed())
	f.Expect(hanging.Tail(1)).To(HaveSuffix(shard.ErrLeaseLost.Error()))
	f.settled(n+5, "budget-2")
}

// TestBlind lets instances start that may not read Deployments. They must not be given any.
func TestBlind(t *testing.T) {
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
		f.Expect(f.end(p)).To(Succeed())
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

// spoil deletes a budget, and changes another one of the same shard if there is one.
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
	// It is another one: the one of s must not be taken for it.
	f.Eventually(func(g Gomega) types.UID {
		budget := &policyv1.PodDisruptionBudget{}
		g.Expect(f.Client.Get(context.Background(), client.ObjectKeyFromObject(deleted), budget)).To(Succeed())
		return budget.UID
	}).ShouldNot(Equal(deleted.UID))
}

// leave stops a shard in good order. It has released its Lease then.
func (f *fixture) leave(p *rig.Running) {
	f.t.Helper()
	f.Expect(p.Terminate()).To(Succeed())
	f.Expect(f.end(p)).To(Succeed())
	lease := &coordinationv1.Lease{}
	f.Expect(f.Client.Get(f.t.Context(), client.ObjectKey{Namespace: f.Namespace, Name: p.Name()}, lease)).To(Succeed())
	f.Expect(*lease.Spec.HolderIdentity).To(BeEmpty())
}

// end waits for the end of a process.
func (f *fixture) end(p *rig.Running) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	return p.Wait(ctx)
}
