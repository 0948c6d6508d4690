package examples_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// TestPlainLeads runs one active instance, and others on standby.
func TestPlainLeads(t *testing.T) {
	f := setUp(t)
	first := f.start("plain", "first", shardRole, "--mode=lead")
	f.awaitLeader("first")
	second := f.start("plain", "second", shardRole, "--mode=lead")
	f.deploy(0, 3)
	f.awaitBudgets(3)

	t.Log("The leader is killed")
	f.Expect(first.Kill()).To(Succeed())
	f.deploy(3, 1)
	f.awaitLeader("second")
	f.awaitBudgets(4)

	t.Log("The leader stops gracefully, and releases its Lease when its work has ended")
	third := f.start("plain", "third", shardRole, "--mode=lead")
	f.Expect(second.Terminate()).To(Succeed())
	f.Expect(f.waitForExit(second)).To(Succeed())
	f.awaitLeader("third")
	f.deploy(4, 1)
	f.awaitBudgets(5)

	t.Log("The leader hangs for longer than its Lease, and exits when it resumes")
	f.Expect(third.Pause()).To(Succeed())
	f.start("plain", "fourth", shardRole, "--mode=lead")
	f.awaitLeader("fourth")
	f.Expect(third.Resume()).To(Succeed())
	f.Expect(f.waitForExit(third)).NotTo(Succeed())
	f.Expect(third.Tail(1)).To(HaveSuffix(shard.ErrLeaseLost.Error()))
	f.deploy(5, 1)
	f.awaitBudgets(6)
}

func TestPlainAlone(t *testing.T) {
	f := setUp(t)
	f.start("plain", "only", shardRole, "--mode=alone")
	f.deploy(0, 1)
	f.awaitBudgets(1)
	wrong := f.start("plain", "wrong", shardRole, "--mode=sharder")
	f.Expect(f.waitForExit(wrong)).NotTo(Succeed())
	f.Expect(wrong.Tail(1)).To(HaveSuffix("(available: shard, lead, alone)"))
}

// awaitLeader waits until an instance is the leader.
func (f *fixture) awaitLeader(name string) {
	f.t.Helper()
	f.Eventually(func(g Gomega) string {
		lease := &coordinationv1.Lease{}
		g.Expect(f.Client.Get(context.Background(), client.ObjectKey{Namespace: f.Namespace, Name: "budget-leader"}, lease)).To(Succeed())
		g.Expect(lease.Spec.HolderIdentity).NotTo(BeNil())
		return *lease.Spec.HolderIdentity
	}).Should(HavePrefix(name + "_"))
}

// awaitBudgets waits until n budgets exist, none of them with a label.
func (f *fixture) awaitBudgets(n int) {
	f.t.Helper()
	f.Eventually(func(g Gomega) {
		s := f.read(g)
		g.Expect(s.budgets).To(HaveLen(n))
		for name, budget := range s.budgets {
			g.Expect(budget.Labels).To(BeEmpty(), name)
		}
	}).Should(Succeed())
}
