package sharder_test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// namespace creates another namespace.
func (f *fixture) namespace(prefix string) string {
	f.t.Helper()
	name := prefix + "-" + f.Namespace
	f.Expect(f.Client.Create(f.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	return name
}

// admit changes the namespaces from which the ring accepts shards.
func (f *fixture) admit(namespaces ...string) {
	f.t.Helper()
	change := client.MergeFrom(f.ring.DeepCopy())
	f.ring.Spec.ShardNamespaces = namespaces
	f.Expect(f.Client.Patch(f.t.Context(), f.ring, change)).To(Succeed())
}

// drained counts the objects that are drained from a shard, by destination, and those that are not as "kept".
func (f *fixture) drained(shard string) map[string]int {
	list, count := &corev1.ConfigMapList{}, map[string]int{}
	f.Expect(f.Client.List(context.Background(), list, client.InNamespace(f.Namespace),
		client.MatchingLabels{shardingv1alpha1.LabelShard(f.ring.Name): shard})).To(Succeed())
	for i := range list.Items {
		if to, asked := list.Items[i].Labels[shardingv1alpha1.LabelDrain(f.ring.Name)]; asked {
			count[to]++
		} else {
			count["kept"]++
		}
	}
	return count
}

// TestExcludedShardsAreDrained removes the namespaces of live shards from a ring. The shards never release objects, so an
// object with another owner was taken from a live shard.
func TestExcludedShardsAreDrained(t *testing.T) {
	f := setUp(t, func(ring *shardingv1alpha1.ControllerRing) { ring.Spec.ShardNamespaces = nil })
	former, foreign := f.namespace("former"), f.namespace("foreign")
	first := f.run(rig.SharderOptions{Name: "sharder-0", Roles: []string{ringRole}})
	f.join("a", 0)
	b, c := f.joinFrom(former, "b", 0), f.joinFrom(former, "c", 0)
	n := f.admits()
	f.create(0, 30)
	n += 30
	f.awaitOwners("a", "b", "c")
	before := f.owners()
	t.Logf("owners: %v", before)
	untouched := func(when string) {
		t.Helper()
		for _, shard := range []string{"b", "c"} {
			f.Eventually(func() (map[string]int, error) {
				if now := f.owners(); !maps.Equal(now, before) {
					return nil, StopTrying(fmt.Sprintf("objects were taken from live shards: %v, before: %v", now, before))
				}
				return f.drained(shard), nil
			}).Should(Equal(map[string]int{"a": before[shard]}), when)
		}
		f.Consistently(f.owners, "2s", "100ms").Should(Equal(before), when)
	}

	f.admit(f.Namespace)
	untouched("the ring no longer accepts shards from the namespace")
	f.Eventually(func() []string { return f.eventReasons("Lease", "b") }).Should(ContainElement("Normal ShardCordoned"))
	f.shows(b.key, "ready")
	f.Eventually(f.recorded).Should(ConsistOf(f.Namespace, former))

	t.Log("The sharder restarts")
	f.Expect(first.Stop(t.Context())).To(Succeed())
	f.joinFrom(foreign, "stranger", 0)
	second := f.run(rig.SharderOptions{Name: "sharder-1", Roles: []string{ringRole}})
	f.Eventually(func() []string { return f.eventReasons("Lease", "stranger") }).Should(ContainElement("Warning ShardRefused"))
	untouched("the sharder was restarted")

	t.Log("The ring changes without a running sharder")
	f.admit(f.Namespace, former)
	f.Eventually(func() []int { return []int{f.drained("b")["kept"], f.drained("c")["kept"]} }).Should(Equal([]int{before["b"], before["c"]}))
	f.Expect(second.Stop(t.Context())).To(Succeed())
	f.admit(f.Namespace)
	f.start("sharder-2", ringRole)
	untouched("the ring changed without a sharder")

	t.Log("One shard dies, and one releases its objects")
	c.stopRenewing()
	f.Eventually(func() int { return f.owners()["c"] }).Should(BeZero())
	f.Expect(f.owners()["b"]).To(Equal(before["b"]))
	f.Eventually(func() map[string]int {
		f.releaseDrained()
		return f.owners()
	}).Should(Equal(map[string]int{"a": n}))
	f.condition(shardingv1alpha1.ConditionAssigned, shardingv1alpha1.ReasonAssigned)
	b.leave()
	f.Eventually(f.recorded).Should(ConsistOf(f.Namespace))
}

// recorded returns the namespaces in the ring's status.
func (f *fixture) recorded() []string {
	ring := &shardingv1alpha1.ControllerRing{}
	f.Expect(f.Client.Get(context.Background(), client.ObjectKeyFromObject(f.ring), ring)).To(Succeed())
	return ring.Status.ShardNamespaces
}
