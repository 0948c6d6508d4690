package shard_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// TestShardPublishesObjectCounts has a shard whose objects are created, deleted and assigned to another shard.
func TestShardPublishesObjectCounts(t *testing.T) {
	f := setUp(t)
	f.configMap("one", "a")
	two := f.configMap("two", "a")
	f.configMap("theirs", "b")
	f.operate("a")
	published := func(g Gomega) map[string]int {
		lease, err := f.Clientset.CoordinationV1().Leases(f.Namespace).Get(t.Context(), "a", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		counts := map[string]int{}
		g.Expect(json.Unmarshal([]byte(lease.Annotations[shardingv1alpha1.AnnotationObjects]), &counts)).To(Succeed())
		return counts
	}
	// The reconciler makes a Secret for each ConfigMap.
	f.Eventually(published).Should(Equal(map[string]int{"configmaps": 2, "secrets": 2}))
	f.label(two, ours, "b")
	f.Expect(f.Client.Delete(t.Context(), f.child("two"))).To(Succeed())
	f.Eventually(published).Should(Equal(map[string]int{"configmaps": 1, "secrets": 1}))
}
