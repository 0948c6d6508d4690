package shard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// run starts an operator in a mode.
func (f *fixture) run(name string, mode shard.Mode, env ...string) *rig.Running {
	f.t.Helper()
	return f.Start(f.t, rig.Process{
		Name: name, ServiceAccount: "operator", Program: "operator",
		Roles: append(slices.Clone(operatorRoles), "pkg/shard/testdata/sharder.yaml"),
		Env:   append(env, "SHARD="+name, "MODE="+string(mode)),
	})
}

// plain creates a ConfigMap without any label.
func (f *fixture) plain(name string) *corev1.ConfigMap {
	f.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name, Labels: map[string]string{"test": "true"}}}
	f.Expect(f.Client.Create(f.t.Context(), object)).To(Succeed())
	return object
}

func (f *fixture) leader(lease string) string {
	found, err := f.Clientset.CoordinationV1().Leases(f.Namespace).Get(context.Background(), lease, metav1.GetOptions{})
	if err != nil || found.Spec.HolderIdentity == nil {
		return ""
	}
	name, _, _ := strings.Cut(*found.Spec.HolderIdentity, "_")
	return name
}

func TestModeAlone(t *testing.T) {
	f := setUp(t)
	p := f.run("a", shard.ModeAlone)
	f.plain("main")
	f.expectOutput(p, "ended main\n")
	f.Expect(f.labels(f.child("main"))).To(BeEmpty())
	f.expectOutput(p, "counted 0\n")
	leases, err := f.Clientset.CoordinationV1().Leases(f.Namespace).List(t.Context(), metav1.ListOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(leases.Items).To(BeEmpty())
	f.Expect(f.Client.Delete(t.Context(), f.configMapOf("main"))).To(Succeed())
	f.expectOutput(p, "released main\n")
}

func (f *fixture) configMapOf(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
}

func TestModeLead(t *testing.T) {
	f := setUp(t)
	a := f.run("a", shard.ModeLead)
	f.Eventually(func() string { return f.leader("ring-leader") }).Should(Equal("a"))
	b := f.run("b", shard.ModeLead)
	main := f.plain("main")
	f.expectOutput(a, "ended main\n")
	f.Expect(f.labels(main)).To(Equal(map[string]string{"test": "true"}))
	election := f.lease("ring-leader")
	f.Expect(election.Labels).To(HaveKeyWithValue(shardingv1alpha1.LabelLeader, "ring"))
	f.Expect(election.Labels).To(HaveKeyWithValue(shardingv1alpha1.LabelSharder, ""))
	f.Expect(election.Annotations).To(HaveKeyWithValue(shardingv1alpha1.AnnotationResources,
		`[{"group":"","resource":"configmaps","controlledResources":[{"group":"","resource":"secrets"}]}]`))

	t.Log("The leader is killed")
	f.expectNoOutput(b, "main")
	f.Expect(a.Kill()).To(Succeed())
	f.expectOutput(b, "ended main\n")

	t.Log("The leader stops gracefully, and the next one starts without waiting for the expiry of the lease")
	c := f.run("c", shard.ModeLead)
	f.expectOutput(c, "Attempting to acquire leader lease")
	f.Expect(b.Terminate()).To(Succeed())
	_, err := f.end(b)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.leader("ring-leader")).NotTo(Equal("b"), "it has released its lease")
	f.expectOutput(c, "ended main\n")

	t.Log("The leader hangs for longer than its lease")
	f.Expect(c.Signal(syscall.SIGSTOP)).To(Succeed())
	d := f.run("d", shard.ModeLead)
	f.expectOutput(d, "ended main\n")
	f.plain("other")
	f.expectOutput(d, "ended other\n")
	f.Expect(c.Signal(syscall.SIGCONT)).To(Succeed())
	_, err = f.end(c)
	f.Expect(err).To(HaveOccurred())
	f.expectOutput(c, shard.ErrLeaseLost.Error())
	f.expectNoOutput(c, "began other\n")
}

// TestModeInProcess elects one of the instances the in-process sharder.
func TestModeInProcess(t *testing.T) {
	f := setUp(t)
	running := map[string]*rig.Running{}
	for _, name := range []string{"a", "b", "c"} {
		running[name] = f.run(name, shard.ModeInProcess)
	}
	f.Eventually(func() string { return f.leader("ring-sharder") }).ShouldNot(BeEmpty())
	for i := range 20 {
		f.plain(fmt.Sprintf("main-%d", i))
	}
	generated := f.configMapOf("")
	generated.GenerateName, generated.Labels = "generated-", map[string]string{"test": "true"}
	f.Expect(f.Client.Create(t.Context(), generated)).To(Succeed())
	f.spreadOver(running)
	lease := f.lease("a")
	f.Expect(lease.Annotations).To(HaveKeyWithValue(shardingv1alpha1.AnnotationResources,
		`[{"group":"","resource":"configmaps","controlledResources":[{"group":"","resource":"secrets"}]}]`))
	f.Expect(lease.Annotations).To(HaveKeyWithValue(shardingv1alpha1.AnnotationNamespaceSelector,
		fmt.Sprintf(`{"matchLabels":{"kubernetes.io/metadata.name":%q}}`, f.Namespace)))

	t.Log("The sharder is killed: another instance is elected, and assigns its objects to the other shards")
	first := f.leader("ring-sharder")
	f.Expect(running[first].Kill()).To(Succeed())
	delete(running, first)
	f.spreadOver(running)
	f.plain("late")
	f.spreadOver(running)

	t.Log("The sharder stops gracefully")
	second := f.leader("ring-sharder")
	f.Expect(running[second].Terminate()).To(Succeed())
	_, err := f.end(running[second])
	f.Expect(err).NotTo(HaveOccurred())
	f.expectOutput(running[second], "Handed over objects")
	f.expectNoOutput(running[second], "Reconciler error") // also not about its own Lease, which it releases
	delete(running, second)
	f.spreadOver(running)

	t.Log("An instance joins")
	running["d"] = f.run("d", shard.ModeInProcess)
	f.spreadOver(running)
}

// TestModeSharder has one process as the sharder, and others as the shards.
func TestModeSharder(t *testing.T) {
	f := setUp(t)
	sharder := f.run("sharder", shard.ModeSharder)
	f.Eventually(func() string { return f.leader("ring-sharder") }).Should(Equal("sharder"))
	f.plain("main")
	running := map[string]*rig.Running{"a": f.run("a", shard.ModeShard), "b": f.run("b", shard.ModeShard)}
	f.spreadOver(running)
	f.expectNoOutput(sharder, "began")
	_, err := f.Clientset.CoordinationV1().Leases(f.Namespace).Get(t.Context(), "sharder", metav1.GetOptions{})
	f.Expect(err).To(HaveOccurred(), "it is not a shard")
}

// spreadOver waits until the owners of all objects and their children are as the ring of the running instances says.
func (f *fixture) spreadOver(running map[string]*rig.Running) {
	f.t.Helper()
	var names []string
	for name := range running {
		names = append(names, name)
	}
	shards := ring.New(names)
	f.Eventually(func(g Gomega) {
		list := &corev1.ConfigMapList{}
		g.Expect(f.Client.List(f.t.Context(), list, client.InNamespace(f.Namespace), client.MatchingLabels{"test": "true"})).To(Succeed())
		for _, object := range list.Items {
			owner := shards.Owner(assignment.Key(schema.GroupKind{Kind: "ConfigMap"}, object.Namespace, object.Name))
			g.Expect(object.Labels).To(Equal(map[string]string{"test": "true", ours: owner}), object.Name)
			g.Expect(f.labels(f.child(object.Name))).To(Equal(map[string]string{ours: owner}), object.Name)
			g.Expect(outputOf(running[owner])).To(ContainSubstring("ended " + object.Name + "\n"))
		}
		for _, name := range names {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}} // it may not be there yet
			g.Expect(f.labels(lease)).To(HaveKeyWithValue(shardingv1alpha1.LabelState, "ready"))
		}
	}).Should(Succeed())
}
