package sharder_test

import (
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// TestHangingDrainIsReported on the ring, on the shard and in the metrics.
func TestHangingDrainIsReported(t *testing.T) {
	f := setUp(t, func(ring *shardingv1alpha1.ControllerRing) {
		ring.Spec.Drain = &shardingv1alpha1.DrainPolicy{Timeout: &metav1.Duration{Duration: 2 * time.Second}}
	})
	r := f.start("sharder-0", ringRole)
	f.join("a", 0)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
	f.create(0, 20)
	f.ownedBy(20, "a")
	f.join("b", 0)
	f.condition(shardingv1alpha1.ConditionDrained, shardingv1alpha1.ReasonDraining)
	f.condition(shardingv1alpha1.ConditionDrained, shardingv1alpha1.ReasonDrainTimeout)
	f.Eventually(func() []string { return f.eventReasons("ControllerRing", f.ring.Name) }).
		Should(ContainElements("Normal Draining", "Warning DrainTimeout"))
	f.Eventually(func() []string { return f.eventReasons("Lease", "a") }).Should(ContainElement("Warning DrainTimeout"))

	metrics := func() string {
		status, content := get(fmt.Sprintf("https://127.0.0.1:%d/metrics", r.Metrics), f.reader(), f.trusted())
		f.Expect(status).To(Equal(http.StatusOK))
		return content
	}
	shown := metrics()
	ring := regexp.QuoteMeta(fmt.Sprintf(`{controllerring=%q}`, f.ring.Name))
	f.Expect(shown).To(MatchRegexp("controller_sharding_drains_outstanding" + ring + " [1-9]"))
	f.Expect(shown).To(MatchRegexp("controller_sharding_drain_oldest_timestamp_seconds" + ring + " [1-9]"))

	f.Eventually(func() map[string]int { f.releaseDrained(); return f.owners() }).Should(And(HaveKey("a"), HaveKey("b"), HaveLen(2)))
	f.condition(shardingv1alpha1.ConditionDrained, shardingv1alpha1.ReasonDrained)
	shown = metrics()
	f.Expect(shown).To(MatchRegexp("controller_sharding_drains_outstanding" + ring + " 0"))
	f.Expect(shown).To(MatchRegexp("controller_sharding_drain_duration_seconds_count" + ring + " [1-9]"))
	f.Expect(shown).To(MatchRegexp("controller_sharding_move_duration_seconds_count"+ring+" [1-9]"), "the children")
}
