package shard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

const ours, drain = "shard.alpha.sharding.timebertt.dev/ring", "drain.alpha.sharding.timebertt.dev/ring"

// operatorRoles are the roles of an operator that is a shard.
var operatorRoles = []string{"pkg/shard/testdata/role.yaml", "pkg/shard/testdata/leader.yaml", "pkg/shard/testdata/operator.yaml"}

// operate starts an operator as a shard. The tests act as the sharder.
func (f *fixture) operate(name string, env ...string) *rig.Running {
	f.t.Helper()
	p := f.Start(f.t, rig.Process{
		Name: name, ServiceAccount: "operator", Program: "operator", Roles: operatorRoles, Env: append(env, "SHARD="+name),
	})
	f.Eventually(func(g Gomega) string {
		lease, err := f.Clientset.CoordinationV1().Leases(f.Namespace).Get(f.t.Context(), name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(lease.Spec.HolderIdentity).NotTo(BeNil())
		return *lease.Spec.HolderIdentity
	}).Should(Equal(name))
	return p
}

// outputOf returns the output of a process, with the end of each line.
func outputOf(p *rig.Running) string { return p.Tail(1000) + "\n" }

func (f *fixture) expectOutput(p *rig.Running, message string) {
	f.t.Helper()
	f.Eventually(func() string { return outputOf(p) }).Should(ContainSubstring(message))
}

// expectNoOutput checks the output until now.
func (f *fixture) expectNoOutput(p *rig.Running, message string) {
	f.t.Helper()
	f.Expect(outputOf(p)).NotTo(ContainSubstring(message))
}

func (f *fixture) configMap(name, owner string, do ...string) *corev1.ConfigMap {
	f.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name, Labels: map[string]string{ours: owner}}}
	object.Data = map[string]string{"do": strings.Join(do, "")}
	f.Expect(f.Client.Create(f.t.Context(), object)).To(Succeed())
	return object
}

// label changes a label without a precondition.
func (f *fixture) label(object client.Object, key, value string) {
	f.t.Helper()
	content := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	f.Expect(f.Client.Patch(f.t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(content)))).To(Succeed())
}

func (f *fixture) labels(key client.Object) map[string]string {
	f.t.Helper()
	err := f.Client.Get(context.Background(), client.ObjectKeyFromObject(key), key)
	if apierrors.IsNotFound(err) {
		return nil
	}
	f.Expect(err).NotTo(HaveOccurred())
	return key.GetLabels()
}

// owned counts the ConfigMaps of a shard.
func (f *fixture) owned(shard string) int {
	f.t.Helper()
	found := &corev1.ConfigMapList{}
	f.Expect(f.Client.List(context.Background(), found, client.InNamespace(f.Namespace), client.MatchingLabels{ours: shard})).To(Succeed())
	return len(found.Items)
}

func (f *fixture) child(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
}

func TestShardReconcilesOnlyItsObjects(t *testing.T) {
	f := setUp(t)
	f.configMap("mine", "a")
	f.configMap("theirs", "b")
	nobodys := f.configMap("nobodys", "")
	f.configMap("looking", "a", "look")
	f.configMap("apply", "a", "apply")
	f.configMap("patch", "a", "patch")
	p := f.operate("a")
	f.expectOutput(p, "ended mine\n")
	f.expectOutput(p, "ended looking\n")
	f.Expect(f.labels(f.child("mine"))).To(HaveKeyWithValue(ours, "a"), "children are labelled without a webhook")
	for _, way := range []string{"apply", "patch"} {
		f.expectOutput(p, "ended "+way+"\n")
		f.Expect(f.labels(f.child(way))).To(HaveKeyWithValue(ours, "a"), "so are children that are written with server-side apply")
	}
	f.expectOutput(p, "applied apply with the labels map["+ours+":a]\n")
	f.expectOutput(p, "filtered: false\n")
	f.expectOutput(p, "unfiltered: true\n")
	f.expectOutput(p, "mine: apply looking mine patch\n")
	f.expectOutput(p, "counted 6\n") // by the controller that leads

	t.Log("An object of a kind that is not sharded concerns all shards")
	indexed := f.configMap("indexed", "a")
	indexed.Data = map[string]string{"account": "someone"}
	f.Expect(f.Client.Update(t.Context(), indexed)).To(Succeed())
	f.expectOutput(p, "ended indexed\n")
	before := strings.Count(outputOf(p), "ended indexed\n")
	f.Expect(f.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "someone"}})).To(Succeed())
	f.Eventually(func() int { return strings.Count(outputOf(p), "ended indexed\n") }).Should(BeNumerically(">", before))

	t.Log("An object that is assigned to this shard is reconciled")
	f.expectNoOutput(p, "theirs\n")
	f.expectNoOutput(p, "nobodys\n")
	f.label(nobodys, ours, "a")
	f.expectOutput(p, "ended nobodys\n")
	f.expectNoOutput(p, "is not there")
}

// TestHandover drains objects with each kind of value of the drain label.
func TestHandover(t *testing.T) {
	f := setUp(t)
	f.peer("b", "b", nil)
	p := f.operate("a")
	for name, test := range map[string]struct {
		do, drain string
		main      map[string]string
		child     map[string]string
	}{
		"to-a-shard":      {"", "b", map[string]string{ours: "b"}, map[string]string{ours: "b"}},
		"without-a-word":  {"", "true", nil, map[string]string{ours: "a"}},
		"while-it-works":  {"wait", "b", map[string]string{ours: "b"}, nil},
		"to-where-it-was": {"", "a", nil, map[string]string{ours: "a"}},
		"to-no-shard":     {"", "yes", nil, map[string]string{ours: "a"}}, // people write anything
	} {
		object := f.configMap(name, "a", test.do)
		f.expectOutput(p, "began "+name+"\n")
		if test.do == "" {
			f.expectOutput(p, "ended "+name+"\n")
			f.Eventually(func() map[string]string { return f.labels(f.child(name)) }).Should(Equal(map[string]string{ours: "a"}))
			time.Sleep(200 * time.Millisecond) // until it is in the shard's cache; if not, the sharder moves it
		}
		f.label(object, drain, test.drain)
		f.Eventually(func() map[string]string { return f.labels(object) }).Should(Equal(test.main), name)
		f.Expect(f.labels(f.child(name))).To(Equal(test.child), name)
		if test.do == "wait" {
			f.expectOutput(p, "ended "+name+"\n") // before the object was released
			f.expectOutput(p, name+": "+shard.ErrOwnershipLost.Error())
		}

		t.Logf("%s comes back", name)
		began := strings.Count(outputOf(p), "began "+name+"\n")
		f.label(object, ours, "a")
		f.Eventually(func() int { return strings.Count(outputOf(p), "began "+name+"\n") }).Should(BeNumerically(">", began))
	}
	f.expectNoOutput(p, "is not there")
}

// TestChildrenAreHandedOverFirst observes the order of writes: no shard ever owns an object without its children.
func TestChildrenAreHandedOverFirst(t *testing.T) {
	f := setUp(t)
	f.peer("b", "b", nil)
	p := f.operate("a")
	object := f.configMap("main", "a")
	f.expectOutput(p, "ended main\n")
	time.Sleep(200 * time.Millisecond)
	f.label(object, drain, "b")
	child := f.child("main")
	f.Eventually(func() map[string]string { return f.labels(object) }).Should(HaveKeyWithValue(ours, "b"))
	f.labels(child)
	earlier, err := resourceversion.CompareResourceVersion(child.ResourceVersion, object.ResourceVersion)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(earlier).To(BeNumerically("<", 0))
}

// TestWithdrawnDrainKeepsObject withdraws a drain while the shard waits for a reconcile to end.
func TestWithdrawnDrainKeepsObject(t *testing.T) {
	f := setUp(t)
	p := f.operate("a")
	object := f.configMap("main", "a", "wait")
	f.expectOutput(p, "began main\n")
	f.label(object, drain, "b")
	content := fmt.Sprintf(`{"metadata":{"labels":{%q:null}},"data":{"do":null}}`, drain)
	f.Expect(f.Client.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(content)))).To(Succeed())
	f.Eventually(func() map[string]string { return f.labels(f.child("main")) }).Should(HaveKeyWithValue(ours, "a"), "it goes on")
	f.Expect(f.labels(object)).To(Equal(map[string]string{ours: "a"}))
}

// TestChangedLabelInterruptsReconcile changes the label while the shard reconciles the object.
func TestChangedLabelInterruptsReconcile(t *testing.T) {
	f := setUp(t)
	p := f.operate("a")
	object := f.configMap("main", "a", "wait")
	f.expectOutput(p, "began main\n")
	f.label(object, ours, "b")
	f.expectOutput(p, "main: "+shard.ErrOwnershipLost.Error())
	f.expectOutput(p, "ended main\n")
	f.expectOutput(p, "released main\n")
}

// TestShardThatCannotListChildrenDoesNotJoin but ends with an error.
func TestShardThatCannotListChildrenDoesNotJoin(t *testing.T) {
	f := setUp(t)
	p := f.Start(t, rig.Process{
		Name: "blind", ServiceAccount: "blind", Program: "operator",
		Roles: []string{"pkg/shard/testdata/role.yaml", "pkg/shard/testdata/leader.yaml", "pkg/shard/testdata/blind.yaml"},
		Env:   []string{"SHARD=blind"},
	})
	f.expectOutput(p, "Failed to watch")
	f.Expect(p.Terminate()).To(Succeed())
	_, _ = f.end(p) // soon, and not after the two minutes for which it would try
	_, err := f.Clientset.CoordinationV1().Leases(f.Namespace).Get(t.Context(), "blind", metav1.GetOptions{})
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it never was a member")
}

func TestBuilderErrorsNameTheFix(t *testing.T) {
	f := setUp(t)
	mgr, err := shard.NewManager(f.Config, manager.Options{Scheme: f.scheme(), Metrics: metricsserver.Options{BindAddress: "0"}}, shard.Options{
		Ring: "ring", Name: "a", Namespace: f.Namespace,
	})
	f.Expect(err).NotTo(HaveOccurred())
	nothing := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
	for want, build := range map[string]func() error{
		"add shard.Sharded{} to For": func() error {
			return shard.ControllerManagedBy(mgr).Named("owner").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}, shard.Sharded{}).Complete(nothing)
		},
		"only objects of a sharded kind are released": func() error {
			return shard.ControllerManagedBy(mgr).Named("releaser").For(&corev1.ConfigMap{}).OnReleased(func(reconcile.Request) {}).Complete(nothing)
		},
		"leave NeedLeaderElection unset": func() error {
			return shard.ControllerManagedBy(mgr).Named("leader").For(&corev1.ConfigMap{}, shard.Sharded{}).
				WithOptions(controller.Options{NeedLeaderElection: new(true)}).Complete(nothing)
		},
		"the reconciler is nil": func() error {
			return shard.ControllerManagedBy(mgr).Named("nothing").For(&corev1.ConfigMap{}, shard.Sharded{}).Complete(nil)
		},
	} {
		f.Expect(build()).To(MatchError(ContainSubstring(want)))
	}
	_, err = shard.NewManager(f.Config, manager.Options{}, shard.Options{Name: "a", Namespace: f.Namespace})
	f.Expect(err).To(MatchError(ContainSubstring("Options.Ring is required")))
}

// TestStoppedShardHandsObjectsOver to the remaining shards, and reconciles each until
// then.
func TestStoppedShardHandsObjectsOver(t *testing.T) {
	const n = 60
	f := setUp(t)
	for _, name := range []string{"b", "c"} {
		f.peer(name, name, nil)
	}
	f.peer("dead", "", nil)
	f.peer("off", "off", map[string]string{shardingv1alpha1.AnnotationLeaving: "true"})
	p := f.operate("a")
	for i := range n {
		f.configMap(fmt.Sprintf("main-%d", i), "a")
	}
	f.Eventually(func() int { // some are reconciled again before others for the first time
		children := &corev1.SecretList{}
		f.Expect(f.Client.List(t.Context(), children, client.InNamespace(f.Namespace), client.MatchingLabels{ours: "a"})).To(Succeed())
		return len(children.Items)
	}).Should(Equal(n))
	waiting := f.configMap("waiting", "a", "wait")
	f.expectOutput(p, "began waiting\n")
	time.Sleep(300 * time.Millisecond)

	f.label(f.lease("a"), "example.com/noted", "true") // as a sharder may, which the shard has not read yet
	f.Expect(p.Terminate()).To(Succeed())
	leaving := false
	f.Eventually(func() string {
		gone := f.owned("a") <= n // read before the lease
		lease := f.lease("a")
		if _, says := lease.Annotations[shardingv1alpha1.AnnotationLeaving]; says {
			leaving = true
		}
		if gone && !leaving {
			t.Error("objects move before the lease announces that the shard is leaving")
		}
		return *lease.Spec.HolderIdentity
	}).WithPolling(2*time.Millisecond).Should(BeEmpty(), "the lease is released last")
	f.Expect(leaving).To(BeTrue(), "the lease announces that the shard is leaving")
	shares := map[string]int{}
	for i := range n {
		main := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: fmt.Sprintf("main-%d", i)}}
		owner := f.labels(main)[ours]
		shares[owner]++
		f.Expect(f.labels(f.child(main.Name))).To(HaveKeyWithValue(ours, owner), "with its child")
	}
	f.Expect(shares).To(And(HaveLen(2), HaveKey("b"), HaveKey("c")))
	f.Expect(f.labels(waiting)[ours]).To(BeElementOf("b", "c"))
	_, err := f.end(p)
	f.Expect(err).NotTo(HaveOccurred())
}

// TestLastShardLeaves has no peer to hand its objects over to.
func TestLastShardLeaves(t *testing.T) {
	f := setUp(t)
	p := f.operate("a")
	object := f.configMap("main", "a")
	f.expectOutput(p, "ended main\n")
	f.Expect(p.Terminate()).To(Succeed())
	_, err := f.end(p)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.labels(object)).To(HaveKeyWithValue(ours, "a"))
	f.Expect(*f.lease("a").Spec.HolderIdentity).To(BeEmpty())
}

// TestHangingReconcilerEndsWithLostLease takes over the Lease of a shard whose reconciler ignores its context. The process
// exits before the Lease would have expired.
func TestHangingReconcilerEndsWithLostLease(t *testing.T) {
	f := setUp(t)
	p := f.operate("a")
	f.configMap("main", "a", "hang")
	f.expectOutput(p, "began main\n")
	f.Eventually(func() error {
		lease, sharder := f.lease("a"), shardingv1alpha1.IdentityShardLeaseController
		lease.Spec.HolderIdentity = &sharder
		_, err := f.Clientset.CoordinationV1().Leases(f.Namespace).Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
	_, err := f.end(p)
	f.Expect(err).To(HaveOccurred())
	f.expectOutput(p, shard.ErrLeaseLost.Error())
	f.expectNoOutput(p, "ended main\n")
}

// TestFailedRunnableEndsHangingProcess has a runnable fail while a reconciler and another runnable ignore their contexts. The process
// must not stay a member or leader that does nothing.
func TestFailedRunnableEndsHangingProcess(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]shard.Mode{"shard": shard.ModeShard, "lead": shard.ModeLead} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			p := f.run("a", mode, "FAIL=true")
			f.configMap("main", "a", "hang")
			_, err := f.end(p)
			f.Expect(err).To(HaveOccurred())
			f.expectOutput(p, "this runnable has failed")
			f.expectNoOutput(p, "ended main\n")
			f.expectNoOutput(p, "ended the runnable\n")
		})
	}
}

// peer creates the Lease of a shard without a process.
func (f *fixture) peer(name, holder string, annotations map[string]string) {
	f.t.Helper()
	_, err := f.Clientset.CoordinationV1().Leases(f.Namespace).Create(f.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: "ring"}, Annotations: annotations},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}, metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
}
