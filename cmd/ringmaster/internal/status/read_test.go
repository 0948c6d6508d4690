package status_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestCount counts the objects of a ring, more than a page of them.
func TestCount(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.declare()
	f.join("a")
	f.join("b", leaving)
	f.join("c", released)
	var names []string
	for i := range 600 {
		names = append(names, fmt.Sprintf("mine-%d", i))
	}
	f.create("a", names...)
	f.create("b", "b-1", "b-2")
	f.create("c", "c-1")
	f.create("gone", "gone-1")
	f.create("", "unassigned-1")
	f.adopt("child", "b-1", "b")
	// The ring ignores an object without a controller, and the objects of other namespaces.
	f.Expect(f.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "uncontrolled"}})).To(Succeed())
	f.Expect(f.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "other-"}})).To(Succeed())

	got := f.ring()
	f.Expect(got.Declared).To(BeTrue())
	f.Expect(got.Ready.Status).To(Equal(metav1.ConditionTrue))
	f.Expect(got.Sharders).To(Equal([]status.Sharder{{Kind: status.External, Unseen: true}}))
	f.Expect([]int{got.Members, got.Available}).To(Equal([]int{2, 1}))
	f.Expect(got.Total.Objects).To(Equal(606))
	f.Expect(got.Total.Unassigned).To(Equal(1))
	f.Expect(got.Total.Orphaned).To(Equal(2))
	f.Expect(got.Total.NotSharded).To(BeNumerically(">=", 2))
	f.Expect(got.Imbalance).To(Equal(1.0))
	f.Expect(got.Warnings).To(ConsistOf(ContainSubstring("the sharder has no Lease")))
	shards := map[string]string{}
	for _, shard := range got.Shards {
		shards[shard.Name] = fmt.Sprintf("%s member=%t leaving=%t configmaps=%d secrets=%d", shard.State, shard.Member, shard.Leaving, shard.Objects["configmaps"], shard.Objects["secrets"])
	}
	f.Expect(shards).To(Equal(map[string]string{
		"a":    "ready member=true leaving=false configmaps=600 secrets=0",
		"b":    "ready member=true leaving=true configmaps=2 secrets=1",
		"c":    "left member=false leaving=false configmaps=1 secrets=0",
		"gone": "gone member=false leaving=false configmaps=1 secrets=0",
	}))
}

// TestDrainSince finds in the metadata of objects when a drain began.
func TestDrainSince(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.declare()
	f.join("a")
	f.join("b")
	object, drain := f.configMapOwnedBy("b", "a", "b"), shardingv1alpha1.LabelDrain(f.name)
	f.create("a", object, "another")
	f.Expect(f.ring().Total.OldestDrain).To(BeNil())
	written := f.label(object, drain, "b")
	var asked *metav1.Time
	for _, entry := range written.ManagedFields {
		if entry.Manager == "sharder" {
			asked = entry.Time
		}
	}
	f.Expect(asked).NotTo(BeNil())
	got := f.ring()
	f.Expect(got.Total.Draining).To(Equal(1))
	f.Expect(got.Total.OldestDrain.Equal(asked)).To(BeTrue(), "%v, and not %v", got.Total.OldestDrain, asked)

	place := f.place("configmap", object)
	f.Expect(place.Reason).To(Equal(status.Draining), place.Message)
	f.Expect(place.Draining.To).To(Equal("b"))
	f.Expect(place.Draining.Since.Equal(asked)).To(BeTrue())
	f.Expect(place.Since).NotTo(BeNil())
	f.Expect(place.SinceExact).To(BeTrue(), "kubectl has written only the label")

	// The sharder assigns it to b, a later change by the same manager of fields.
	f.label(object, shardingv1alpha1.LabelShard(f.name), "b")
	place = f.place("configmap", object)
	f.Expect(place.Reason).To(Equal(status.UndrainPending), place.Message)
	f.Expect(place.SinceExact).To(BeFalse(), "the drain label has the same time")
}

// TestExplain explains the owners of objects.
func TestExplain(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.declare()
	f.join("a")
	f.join("b", released)
	f.create("a", "parent")
	f.create("b", "left")
	f.create("", "new")
	f.adopt("child", "parent", "a")
	f.adopt("stray", "parent", "x")
	f.Expect(f.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "uncontrolled"}})).To(Succeed())

	for _, kind := range []string{"configmap", "configmaps", "cm", "ConfigMap", "configmaps.v1."} {
		place := f.place(kind, "parent")
		f.Expect(place.Reason).To(Equal(status.AsDesired), place.Message)
		f.Expect(place.Agrees).To(BeTrue())
		f.Expect(place.Children).To(HaveLen(2))
		f.Expect([]string{place.Children[0].Name, place.Children[0].Shard, place.Children[0].State}).To(Equal([]string{"child", "a", "ready"}))
		f.Expect([]string{place.Children[1].Name, place.Children[1].Shard, place.Children[1].State}).To(Equal([]string{"stray", "x", "gone"}))
	}
	f.Expect(f.place("cm", "left").Reason).To(Equal(status.ShardDead))
	f.Expect(f.place("cm", "new").Reason).To(Equal(status.Unassigned))
	f.Expect(f.place("secret", "child").Reason).To(Equal(status.AsDesired))
	f.Expect(f.place("secret", "child").Controller.Name).To(Equal("parent"))
	f.Expect(f.place("secret", "stray").Reason).To(Equal(status.ShardGone))
	f.Expect(f.place("secret", "uncontrolled").Reason).To(Equal(status.NotSharded))

	query := status.Query{Rings: []string{f.name}, Namespace: f.Namespace}
	names := []status.Name{{Type: "cm", Name: "parent"}, {Type: "cm", Name: "absent"}, {Type: "pods", Name: "x"}, {Type: "things", Name: "x"}}
	report, err := f.reader(f.Config).Objects(t.Context(), query, names)
	f.Expect(report.Objects).To(HaveLen(1), "the one that is there")
	f.Expect(err).To(MatchError(And(
		ContainSubstring(`configmap "absent" not found in namespace "`+f.Namespace+`"`),
		ContainSubstring("no ring has the resource pods (available:\n  ring "+f.name+": configmaps, secrets)"),
		ContainSubstring(`does not serve the type "things"`),
	)))
}

// TestNamespaceSelector has a selector for which the names of namespaces are not enough.
func TestNamespaceSelector(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	ring := f.declare()
	ring.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"project": f.name}}
	f.Expect(f.Client.Update(t.Context(), ring)).To(Succeed())
	f.join("a")
	f.create("a", "object")
	f.Expect(f.ring().Total.Objects).To(BeZero())
	f.Expect(f.place("cm", "object").Reason).To(Equal(status.NotSelected))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace}}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"project":%q}}}`, f.name)
	f.Expect(f.Client.Patch(t.Context(), namespace, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
	f.Expect(f.ring().Total.Objects).To(Equal(1))
	f.Expect(f.place("cm", "object").Reason).To(Equal(status.AsDesired))
}

// TestWithoutCRD has a ring with an in-process sharder on a cluster without the CRD.
func TestWithoutCRD(t *testing.T) {
	f := setUp(t, rig.Private(t, rig.Options{}))
	_, err := f.reader(f.Config).Rings(t.Context(), status.Query{})
	f.Expect(err).To(MatchError(ContainSubstring("no ring found: neither a ControllerRing exists, nor a Lease")))

	f.join("a")
	f.create("a", "object")
	got := f.ring()
	f.Expect(got.Declared).To(BeFalse())
	f.Expect(got.Ready.Reason).To(Equal("NoSharder"))
	f.lead("a_1")
	f.join("b")
	got = f.ring()
	f.Expect(got.Ready.Status).To(Equal(metav1.ConditionTrue))
	f.Expect(got.Sharders).To(HaveLen(1))
	f.Expect(got.Sharders[0].Holder).To(Equal("a_1"))
	f.Expect(got.Warnings).To(BeEmpty())
	f.Expect(got.Available).To(Equal(2))
	f.Expect(got.Kinds).To(HaveLen(2))
	f.Expect(f.place("cm", "object").Desired).To(BeElementOf("a", "b"))

	_, err = f.reader(f.Config).Rings(t.Context(), status.Query{Rings: []string{"misspelt"}})
	f.Expect(err).To(MatchError(fmt.Sprintf("ring %q not found (available: %s)", "misspelt", f.name)))
}

// TestLeader has an operator in which one instance reconciles all objects.
func TestLeader(t *testing.T) {
	f := setUp(t, rig.Private(t, rig.Options{}))
	f.join(f.name+"-leader", leading(f.name, "a_1"))
	f.join("another", leading("", "a_1"))
	f.create("", "object")
	f.create("old", "labelled")
	report, err := f.reader(f.Config).Rings(t.Context(), status.Query{})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(report.Rings).To(BeEmpty())
	f.Expect(report.Leaders).To(HaveLen(1))
	got := report.Leaders[0]
	f.Expect([]string{got.Name, got.Namespace, got.Lease, got.Instance, got.State()}).To(Equal([]string{f.name, f.Namespace, f.name + "-leader", "a", "leading"}))
	f.Expect(got.Resources).To(Equal([]string{"configmaps", "secrets"}))

	place := f.place("cm", "object")
	f.Expect([]any{place.Reason, place.Shard, place.Agrees}).To(Equal([]any{status.OwnedByLeader, "a", true}), place.Message)
	f.Expect(place.Message).To(ContainSubstring("a leads " + f.name + " and reconciles all objects"))
	f.Expect(f.place("cm", "labelled").Message).To(ContainSubstring("Its shard label, old, is left over"))
	query := status.Query{Namespace: f.Namespace, Implied: true}
	_, err = f.reader(f.Config).Objects(t.Context(), query, []status.Name{{Type: "pod", Name: "x"}, {Type: "cm", Name: "absent"}})
	f.Expect(err).To(MatchError(And(
		ContainSubstring("no ring has the resource pods (available:\n  leader of "+f.name+": configmaps, secrets)"),
		ContainSubstring(`configmap "absent" not found in namespace "`+f.Namespace+`": select another namespace with -n`),
	)))
	_, err = f.reader(f.Config).Rings(t.Context(), status.Query{Rings: []string{"misspelt"}})
	f.Expect(err).To(MatchError(fmt.Sprintf("ring %q not found (available: %s)", "misspelt", f.name)))

	t.Log("The operator was sharded before, and its shards have left")
	f.join("old", released)
	report, err = f.reader(f.Config).Rings(t.Context(), status.Query{})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(report.Rings).To(BeEmpty())
	f.Expect(report.Leaders).To(HaveLen(1))
	f.Expect(f.place("cm", "labelled").Reason).To(Equal(status.OwnedByLeader))

	t.Log("Shards of the same operator are active, too, which is an error")
	f.join("b")
	f.lead("b_1")
	f.Expect(f.ring().Warnings).To(ConsistOf(ContainSubstring("a leads with the Lease " + f.Namespace + "/" + f.name + "-leader and reconciles all objects")))
}

// TestNamespaceNotFound is an error, not a namespace without objects.
func TestNamespaceNotFound(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.declare()
	query := status.Query{Rings: []string{f.name}, Namespace: "nowhere"}
	_, err := f.reader(f.Config).Rings(t.Context(), query)
	f.Expect(err).To(MatchError(`namespace "nowhere" not found`))
	_, err = f.reader(f.Config).Objects(t.Context(), query, []status.Name{{Type: "cm", Name: "x"}})
	f.Expect(err).To(MatchError(`configmap "x" not found: namespace "nowhere" not found`))
}

// TestPermissions reports what the user may read, and names what they may not.
func TestPermissions(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.declare()
	f.join("a")
	f.create("a", "object")
	f.adopt("child", "object", "a")
	somebody := f.reader(f.account(
		[]rbacv1.PolicyRule{rule("list", "sharding.timebertt.dev", "controllerrings")},
		[]rbacv1.PolicyRule{rule("list", "", "configmaps"), rule("get", "", "configmaps")},
	))
	query := status.Query{Rings: []string{f.name}, Namespace: f.Namespace, Count: true}
	var report *status.Report
	f.Eventually(func() (err error) { // until the API server knows the roles
		report, err = somebody.Rings(t.Context(), query)
		return err
	}, "10s").Should(Succeed())
	f.Eventually(func() *status.Counts {
		report, _ = somebody.Rings(t.Context(), query)
		return report.Rings[0].Kinds[0].Counts
	}, "10s").ShouldNot(BeNil())
	got := report.Rings[0]
	f.Expect(report.Warnings).To(ConsistOf(ContainSubstring("the Leases of shards are not shown: ")))
	f.Expect(got.Kinds[0].Counts.Objects).To(Equal(1))
	f.Expect(got.Kinds[1].Counts).To(BeNil())
	f.Expect(got.Kinds[1].Error).To(ContainSubstring("forbidden"))
	f.Expect(got.Warnings).To(ConsistOf(ContainSubstring("secrets are not counted: ")))
	f.Expect(got.Shards).To(HaveLen(1))
	f.Expect(got.Shards[0].State).To(Equal(status.StateUnknown))
	f.Expect(report.Unreadable).To(ConsistOf(HavePrefix("Leases of shards: "), HavePrefix(`secrets of ring "`+f.name+`": `)))

	report, err := somebody.Objects(t.Context(), query, []status.Name{{Type: "cm", Name: "object"}})
	f.Expect(err).NotTo(HaveOccurred())
	place := report.Objects[0].Places[0]
	f.Expect(place.Reason).To(Equal(status.Unknown))
	f.Expect(place.Shard).To(Equal("a"))
	f.Expect(place.Children[0].Error).To(ContainSubstring("forbidden"))
}

// TestPermissionsInOneNamespace are enough for a ring whose shards and objects are there.
func TestPermissionsInOneNamespace(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.join("a")
	f.lead("a_1")
	f.create("a", "object")
	somebody := f.reader(f.account(nil, []rbacv1.PolicyRule{rule("list", "", "configmaps", "secrets"), rule("list", "coordination.k8s.io", "leases")}))
	var report *status.Report
	f.Eventually(func() (err error) {
		report, err = somebody.Rings(t.Context(), status.Query{Namespace: f.Namespace, Count: true})
		return err
	}, "10s").Should(Succeed())
	f.Expect(report.Rings).To(HaveLen(1))
	f.Expect(report.Rings[0].Total.Objects).To(Equal(1))
	f.Expect(report.Rings[0].Available).To(Equal(1))
	f.Expect(report.Warnings).To(ConsistOf(
		ContainSubstring("ControllerRings are not shown: "),
		ContainSubstring("only the Leases of the namespaces "+f.Namespace+" are shown: "),
	))
	f.Expect(report.Unreadable).To(ConsistOf(HavePrefix("ControllerRings: ")))
	_, err := somebody.Rings(t.Context(), status.Query{})
	f.Expect(err).To(MatchError(ContainSubstring("nothing can be read: it needs permission to list controllerrings")))
}
