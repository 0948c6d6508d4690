package sharder_test

import (
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestMetricsAndProfilesNeedPermission shows which tokens can read which paths.
func TestMetricsAndProfilesNeedPermission(t *testing.T) {
	f := setUp(t)
	r := f.run(rig.SharderOptions{Name: "sharder-0", Roles: []string{ringRole}, Config: "debugging: {enableProfiling: true}"})
	f.join("a", 0)
	f.condition(shardingv1alpha1.ConditionAssigned, shardingv1alpha1.ReasonAssigned)
	f.create(0, 3)
	f.ownedBy(3, "a")
	roots := f.trusted()
	metrics := fmt.Sprintf("https://127.0.0.1:%d/metrics", r.Metrics)
	profiles := fmt.Sprintf("https://127.0.0.1:%d/debug/pprof/", r.Metrics)
	profiler := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: f.Namespace + ":profiler"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/debug/pprof/*"}, Verbs: []string{"get"}}},
	}
	f.Expect(f.Client.Create(t.Context(), profiler)).To(Succeed())
	nobody, reader := f.token("nobody"), f.reader()
	for name, test := range map[string]struct {
		url, token string
		want       int
	}{
		"metrics without a token":          {metrics, "", http.StatusUnauthorized},
		"metrics with a bad token":         {metrics, "nonsense", http.StatusUnauthorized},
		"metrics with a token alone":       {metrics, nobody, http.StatusForbidden},
		"profiles without a token":         {profiles, "", http.StatusUnauthorized},
		"profiles for a reader of metrics": {profiles, reader, http.StatusForbidden},
		"profiles":                         {profiles + "goroutine?debug=1", f.token("profiler", profiler.Name), http.StatusOK},
		"something else, allowed or not":   {fmt.Sprintf("https://127.0.0.1:%d/", r.Metrics), nobody, http.StatusNotFound},
		"metrics are not on health's port": {fmt.Sprintf("http://127.0.0.1:%d/metrics", r.Health), reader, http.StatusNotFound},
	} {
		if status, content := get(test.url, test.token, roots); status != test.want {
			t.Errorf("%s: %d %s", name, status, content)
		}
	}

	status, content := get(metrics, reader, roots)
	f.Expect(status).To(Equal(http.StatusOK), content)
	ring := fmt.Sprintf(`controllerring=%q`, f.ring.Name)
	for _, want := range []string{
		"controller_sharding_controllerring_metadata_generation{" + ring + `,uid="` + string(f.ring.UID) + `"} 1`,
		"controller_sharding_controllerring_observed_generation{" + ring,
		"controller_sharding_controllerring_status_shards{" + ring,
		"controller_sharding_controllerring_status_available_shards{" + ring,
		"controller_sharding_shard_info{" + ring,
		"controller_sharding_shard_state{" + ring + `,namespace="` + f.Namespace + `",shard="a",state="ready"} 1`,
		"controller_sharding_assignments_total{" + ring + `,group="",resource="configmaps"}`,
		"controller_sharding_ring_calculations_total{" + ring + "} ",
		"controller_sharding_membership_transitions_total{" + ring + `,from="",to="ready"} 1`,
		"controller_sharding_admission_duration_seconds_count{" + ring + `,result="assigned"}`,
		"controller_sharding_sync_duration_seconds_count{" + ring,
		"controller_sharding_unassigned_objects{" + ring + "} 0",
		"controller_sharding_drains_outstanding{" + ring + "} 0",
		"controller_sharding_drain_oldest_timestamp_seconds{" + ring + "} 0",
	} {
		f.Expect(content).To(ContainSubstring(want))
	}
}

// TestReplicaIsNotReadyBeforeItsCaches holds back the watches of a second replica, which is live but not ready
// until it can answer requests.
func TestReplicaIsNotReadyBeforeItsCaches(t *testing.T) {
	f := setUp(t)
	leader := f.start("sharder-0", ringRole)
	f.ready(leader)
	f.Expect(leader.Probe("/healthz")).To(Equal(http.StatusOK))

	proxy := f.Proxy(t)
	proxy.HoldWatches() // which also stream lists
	second := f.run(rig.SharderOptions{Name: "sharder-1", Roles: []string{ringRole}, Proxy: proxy})
	f.Eventually(func() int { return second.Probe("/healthz") }).Should(Equal(http.StatusOK))
	f.Consistently(func() int { return second.Probe("/readyz") }, "2s").Should(Equal(http.StatusInternalServerError))
	f.Expect(second.Probe("/readyz/caches")).To(Equal(http.StatusInternalServerError))

	proxy.Heal()
	f.ready(second)
	election := &coordinationv1.Lease{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Namespace: f.Namespace, Name: "sharder"}, election)).To(Succeed())
	f.Expect(*election.Spec.LeaseTransitions).To(BeZero(), "the second one is ready and does not lead")

	t.Log("It stays ready without an API server, and serves profiles only if they are enabled")
	status, _ := get(fmt.Sprintf("https://127.0.0.1:%d/debug/pprof/", second.Metrics), f.token("nobody"), f.trusted())
	f.Expect(status).To(Equal(http.StatusNotFound))
	proxy.Refuse()
	f.Consistently(func() int { return second.Probe("/readyz") }, "2s").Should(Equal(http.StatusOK))
}
