package sharder_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// TestObjectsFollowChangesOfShards has shards join, leave and die, and the leader of the sharder killed.
func TestObjectsFollowChangesOfShards(t *testing.T) {
	f := setUp(t)
	leader := f.start("sharder-0", ringRole)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonNoShards)

	a, b := f.join("a", 0), f.join("b", -10*time.Minute)
	f.join("c", time.Hour)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: "controllerring-" + f.ring.Name}, webhook)).To(Succeed())
	f.Expect(*webhook.Webhooks[0].FailurePolicy).To(Equal(admissionregistrationv1.Ignore))

	n := f.admits()
	f.create(n, 40)
	n += 40
	f.ownedBy(n, "a", "b", "c")

	t.Log("A shard with a wrong clock is ready")
	f.Consistently(func() string {
		lease, err := b.lease()
		f.Expect(err).NotTo(HaveOccurred())
		return *lease.Spec.HolderIdentity
	}, "6s", "200ms").Should(Equal("b"))

	t.Log("A shard leaves")
	a.leave()
	f.ownedBy(n, "b", "c")
	f.Eventually(func() []string { return f.eventReasons("Lease", "a") }).Should(Equal([]string{"Normal ShardReady", "Normal ShardReleased"}))

	t.Log("The next replica takes over when the leader is killed")
	f.start("sharder-1", ringRole)
	f.Expect(leader.Kill()).To(Succeed())

	t.Log("A shard dies")
	b.stopRenewing()
	f.ownedBy(n, "c")
	lease, err := b.lease()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(*lease.Spec.HolderIdentity).To(Equal(shardingv1alpha1.IdentityShardLeaseController))
	f.Expect(lease.Labels).To(HaveKeyWithValue(shardingv1alpha1.LabelState, "dead"))
	f.Eventually(func() []string { return f.eventReasons("Lease", "b") }).Should(ContainElements("Normal ShardReady", "Warning ShardDead"))

	t.Log("A new shard gets the objects that the others release")
	f.join("d", 0)
	f.condition(shardingv1alpha1.ConditionDrained, shardingv1alpha1.ReasonDraining)
	f.Eventually(func() int {
		f.releaseDrained()
		return f.owners()["d"]
	}).Should(BeNumerically(">", 0))
	f.Eventually(func() map[string]int { f.releaseDrained(); return f.owners() }).Should(Satisfy(func(count map[string]int) bool {
		return count["c"] > 0 && count["d"] > 0 && count["c"]+count["d"] == n && len(count) == 2
	}))
	f.condition(shardingv1alpha1.ConditionDrained, shardingv1alpha1.ReasonDrained)
	f.condition(shardingv1alpha1.ConditionAssigned, shardingv1alpha1.ReasonAssigned)
}

// TestMissingPermissionIsReported until the rule is added.
func TestMissingPermissionIsReported(t *testing.T) {
	f := setUp(t)
	f.start("sharder-0")
	f.join("a", 0)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonMissingPermission)
	ring := &shardingv1alpha1.ControllerRing{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKeyFromObject(f.ring), ring)).To(Succeed())
	f.Expect(meta.FindStatusCondition(ring.Status.Conditions, shardingv1alpha1.ConditionReady).Message).
		To(ContainSubstring(`{apiGroups: [""], resources: ["configmaps"], verbs: [list, patch]}`))
	f.create(0, 5) // no request fails because of that
}

// TestObjectsWithGeneratedNamesAreAssigned although the webhook does not know their names.
func TestObjectsWithGeneratedNamesAreAssigned(t *testing.T) {
	f := setUp(t)
	f.start("sharder-0", ringRole)
	f.join("a", 0)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
	// Wait for the resync after the change of the members, which assigns the first object.
	f.create(0, 1)
	f.ownedBy(1, "a")
	time.Sleep(16 * time.Second)
	for range 10 {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, GenerateName: "generated-"}}
		f.Expect(f.Client.Create(t.Context(), object)).To(Succeed())
	}
	f.ownedBy(11, "a")
}

// TestListAndPatchSuffice has a role with the two verbs that rings of other implementations grant. Objects and their
// children are created before the sharder starts, so that it has to find and write them; then they move.
func TestListAndPatchSuffice(t *testing.T) {
	f := setUp(t)
	f.create(0, 20)
	f.start("sharder-0", ringRole) // list and patch
	f.join("a", 0)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
	f.ownedBy(20, "a")
	f.join("b", 0)
	f.Eventually(func() map[string]int { f.releaseDrained(); return f.owners() }).Should(And(HaveKey("a"), HaveKey("b"), HaveLen(2)))
	f.condition(shardingv1alpha1.ConditionDrained, shardingv1alpha1.ReasonDrained)
	f.condition(shardingv1alpha1.ConditionAssigned, shardingv1alpha1.ReasonAssigned)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
}
