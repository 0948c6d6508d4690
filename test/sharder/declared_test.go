package sharder_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// declare sets the resources in the annotation of a shard's Lease.
func (s *shard) declare(resources string) {
	s.f.t.Helper()
	lease, err := s.lease()
	s.f.Expect(err).NotTo(HaveOccurred())
	change := client.MergeFrom(lease.DeepCopy())
	lease.Annotations = map[string]string{shardingv1alpha1.AnnotationResources: resources}
	s.f.Expect(s.f.Client.Patch(s.f.t.Context(), lease, change)).To(Succeed())
}

// TestDifferentResourcesAreReported has shards with other resources than their ring, which lists ConfigMaps with Secrets.
func TestDifferentResourcesAreReported(t *testing.T) {
	f := setUp(t)
	f.start("sharder-0", ringRole)
	a, b := f.join("a", 0), f.join("b", 0)
	f.join("plain", 0)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
	message := func() string {
		ring := &shardingv1alpha1.ControllerRing{}
		f.Expect(f.Client.Get(context.Background(), client.ObjectKeyFromObject(f.ring), ring)).To(Succeed())
		if found := meta.FindStatusCondition(ring.Status.Conditions, shardingv1alpha1.ConditionMatching); found != nil {
			return found.Reason + ": " + found.Message
		}
		return ""
	}
	const same = `[{"group":"","resource":"configmaps","controlledResources":[{"group":"","resource":"secrets"}]}]`
	a.declare(same)
	b.declare(`[{"group":"","resource":"configmaps"},{"group":"apps","resource":"deployments"}]`)
	f.Eventually(message).Should(And(
		HavePrefix("NotWatched: "), ContainSubstring("shard b does not watch secrets controlled by configmaps"),
		ContainSubstring("shard b watches deployments.apps, which the ring does not list"),
		Not(ContainSubstring("shard a ")), Not(ContainSubstring("plain")),
	))
	f.Eventually(func() []string { return f.eventReasons("ControllerRing", f.ring.Name) }).Should(ContainElement("Warning NotWatched"))

	b.declare("not JSON")
	f.Eventually(message).Should(BeEmpty())
	b.declare(`[{"resource":"configmaps","controlledResources":[{"resource":"secrets"}]},{"resource":"pods"}]`)
	f.Eventually(message).Should(And(HavePrefix("NotListed: "), ContainSubstring("shard b watches pods, which the ring does not list")))
	b.leave()
	f.Eventually(message).Should(BeEmpty())
}
