package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/sharder/metrics"
)

var websites = schema.GroupResource{Group: "webhosting.timebertt.dev", Resource: "websites"}

// expose compares the named metrics of a scrape with the expected ones.
func expose(t *testing.T, registry prometheus.Gatherer, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// TestSharedCounters pins down the names and labels that dashboards for other implementations of the
// wire contract rely on.
func TestSharedCounters(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	m.Assigned("r", websites)
	m.Moved("r", websites, time.Second)
	m.Moved("r", websites, time.Second)
	m.DrainRequested("r", websites)
	m.Calculated("r")
	expose(t, registry, `
# HELP controller_sharding_assignments_total Objects that were assigned at admission
# TYPE controller_sharding_assignments_total counter
controller_sharding_assignments_total{controllerring="r",group="webhosting.timebertt.dev",resource="websites"} 1
# HELP controller_sharding_drains_total Objects whose owner was asked to release them
# TYPE controller_sharding_drains_total counter
controller_sharding_drains_total{controllerring="r",group="webhosting.timebertt.dev",resource="websites"} 1
# HELP controller_sharding_movements_total Objects that the sharder assigned or moved after admission
# TYPE controller_sharding_movements_total counter
controller_sharding_movements_total{controllerring="r",group="webhosting.timebertt.dev",resource="websites"} 2
# HELP controller_sharding_ring_calculations_total Calculations of the hash ring
# TYPE controller_sharding_ring_calculations_total counter
controller_sharding_ring_calculations_total{controllerring="r"} 1
`, "controller_sharding_assignments_total", "controller_sharding_movements_total",
		"controller_sharding_drains_total", "controller_sharding_ring_calculations_total")
}

func TestObjectsAfterResync(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	names := []string{"controller_sharding_objects", "controller_sharding_unassigned_objects"}
	m.Synced("r", map[schema.GroupResource]map[string]int{websites: {"a": 3, "b": 4}}, 2, time.Second)
	m.Synced("r", map[schema.GroupResource]map[string]int{websites: {"a": 7}}, 0, time.Second)
	expose(t, registry, `
# HELP controller_sharding_objects Objects at the last resync, by shard
# TYPE controller_sharding_objects gauge
controller_sharding_objects{controllerring="r",group="webhosting.timebertt.dev",resource="websites",shard="a"} 7
# HELP controller_sharding_unassigned_objects Objects that are unassigned or orphaned, as of the last pass
# TYPE controller_sharding_unassigned_objects gauge
controller_sharding_unassigned_objects{controllerring="r"} 0
`, names...)
}

func TestDrains(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	names := []string{"controller_sharding_drains_outstanding", "controller_sharding_drain_oldest_timestamp_seconds"}
	want := func(outstanding int, oldest string) string {
		return fmt.Sprintf(`
# HELP controller_sharding_drain_oldest_timestamp_seconds Time at which the oldest outstanding drain began, or 0
# TYPE controller_sharding_drain_oldest_timestamp_seconds gauge
controller_sharding_drain_oldest_timestamp_seconds{controllerring="r"} %s
# HELP controller_sharding_drains_outstanding Drains that are outstanding
# TYPE controller_sharding_drains_outstanding gauge
controller_sharding_drains_outstanding{controllerring="r"} %d
`, oldest, outstanding)
	}
	m.Draining("r", 5, time.UnixMilli(1_500_250), nil)
	expose(t, registry, want(5, "1500.25"), names...)
	m.Draining("r", 0, time.Time{}, []time.Duration{300 * time.Millisecond, time.Hour})
	expose(t, registry, want(0, "0"), names...)
	const histogram = "controller_sharding_drain_duration_seconds"
	if n, err := testutil.GatherAndCount(registry, histogram); err != nil || n != 1 {
		t.Errorf("%d series of %s: %v", n, histogram, err)
	}
}

// TestForgetRemovesOnlyOneRing deletes one of two rings.
func TestForgetRemovesOnlyOneRing(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	show := func(ring string) {
		m.Assigned(ring, websites)
		m.Moved(ring, websites, time.Second)
		m.DrainRequested(ring, websites)
		m.Calculated(ring)
		m.Transition(ring, membership.Ready, membership.Expired)
		m.Admission(ring, "assigned", time.Millisecond)
		m.Synced(ring, map[schema.GroupResource]map[string]int{websites: {"a": 3}}, 1, time.Second)
		m.Draining(ring, 1, time.UnixMilli(1), []time.Duration{time.Second})
	}
	show("stays")
	want, err := testutil.GatherAndCount(registry)
	if err != nil {
		t.Fatal(err)
	}
	show("goes")
	m.Forget("goes")
	if got, err := testutil.GatherAndCount(registry); err != nil || got != want {
		t.Errorf("%d series instead of %d: %v", got, want, err)
	}
}

// TestMetricsAreDocumented keeps docs/reference/metrics.md complete.
func TestMetricsAreDocumented(t *testing.T) {
	content, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	registry := metricNames{}
	metrics.New(registry)
	registry.MustRegister(&metrics.State{}, metrics.CertificateExpiry(time.Now))
	for name := range registry {
		if !strings.Contains(string(content), "\n| `"+name+"` |") {
			t.Errorf("docs/reference/metrics.md has no row for %s", name)
		}
	}
	if rows := strings.Count(string(content), "\n| `controller_sharding_"); rows != len(registry) {
		t.Errorf("docs/reference/metrics.md has %d rows for %d metrics", rows, len(registry))
	}
}

// metricNames are the names of all metrics that were registered.
type metricNames map[string]bool

func (d metricNames) MustRegister(collectors ...prometheus.Collector) {
	for _, collector := range collectors {
		descriptions := make(chan *prometheus.Desc, 100)
		collector.Describe(descriptions)
		close(descriptions)
		for description := range descriptions {
			d[regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(description.String())[1]] = true
		}
	}
}

func (d metricNames) Register(collector prometheus.Collector) error {
	d.MustRegister(collector)
	return nil
}
func (d metricNames) Unregister(prometheus.Collector) bool { return false }

func TestLint(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	m.Assigned("r", websites)
	m.Moved("r", websites, time.Second)
	m.Transition("r", "", membership.Ready)
	m.Draining("r", 1, time.UnixMilli(1), []time.Duration{time.Second})
	registry.MustRegister(&metrics.State{Reader: fakeCache{rings: rings, leases: leases}})
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// fakeCache is a cache, or one that has not synced.
type fakeCache struct {
	client.Reader
	rings  []shardingv1alpha1.ControllerRing
	leases []coordinationv1.Lease
	err    error
}

func (c fakeCache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *shardingv1alpha1.ControllerRingList:
		list.Items = c.rings
	case *coordinationv1.LeaseList:
		list.Items = c.leases
	}
	return c.err
}

var (
	rings = []shardingv1alpha1.ControllerRing{{
		ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "1234", Generation: 3},
		Status:     shardingv1alpha1.ControllerRingStatus{ObservedGeneration: 2, Shards: 5, AvailableShards: 4},
	}}
	leases = []coordinationv1.Lease{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "5678", Labels: map[string]string{
			shardingv1alpha1.LabelControllerRing: "r", shardingv1alpha1.LabelState: "dead",
		}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "b", UID: "9", Labels: map[string]string{
			shardingv1alpha1.LabelControllerRing: "r",
		}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "stranger", UID: "10", Labels: map[string]string{
			shardingv1alpha1.LabelControllerRing: "none",
		}}},
	}
)

// TestState pins down the metrics of rings and shards, which existing dashboards use.
func TestState(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&metrics.State{Reader: fakeCache{rings: rings, leases: leases}})
	expose(t, registry, `
# HELP controller_sharding_controllerring_metadata_generation The generation of a ring's spec
# TYPE controller_sharding_controllerring_metadata_generation gauge
controller_sharding_controllerring_metadata_generation{controllerring="r",uid="1234"} 3
# HELP controller_sharding_controllerring_observed_generation The generation of a ring's spec that the sharder last acted on
# TYPE controller_sharding_controllerring_observed_generation gauge
controller_sharding_controllerring_observed_generation{controllerring="r",uid="1234"} 2
# HELP controller_sharding_controllerring_status_available_shards Shards of a ring that are assigned objects
# TYPE controller_sharding_controllerring_status_available_shards gauge
controller_sharding_controllerring_status_available_shards{controllerring="r",uid="1234"} 4
# HELP controller_sharding_controllerring_status_shards Known shards of a ring, including dead ones
# TYPE controller_sharding_controllerring_status_shards gauge
controller_sharding_controllerring_status_shards{controllerring="r",uid="1234"} 5
# HELP controller_sharding_shard_info 1 for each shard
# TYPE controller_sharding_shard_info gauge
controller_sharding_shard_info{controllerring="r",namespace="n",shard="a",uid="5678"} 1
controller_sharding_shard_info{controllerring="r",namespace="n",shard="b",uid="9"} 1
# HELP controller_sharding_shard_state 1 for a shard's current state, and 0 for the other states
# TYPE controller_sharding_shard_state gauge
controller_sharding_shard_state{controllerring="r",namespace="n",shard="a",state="dead"} 1
controller_sharding_shard_state{controllerring="r",namespace="n",shard="a",state="expired"} 0
controller_sharding_shard_state{controllerring="r",namespace="n",shard="a",state="orphaned"} 0
controller_sharding_shard_state{controllerring="r",namespace="n",shard="a",state="ready"} 0
controller_sharding_shard_state{controllerring="r",namespace="n",shard="a",state="uncertain"} 0
controller_sharding_shard_state{controllerring="r",namespace="n",shard="a",state="unknown"} 0
controller_sharding_shard_state{controllerring="r",namespace="n",shard="b",state="dead"} 0
controller_sharding_shard_state{controllerring="r",namespace="n",shard="b",state="expired"} 0
controller_sharding_shard_state{controllerring="r",namespace="n",shard="b",state="orphaned"} 0
controller_sharding_shard_state{controllerring="r",namespace="n",shard="b",state="ready"} 0
controller_sharding_shard_state{controllerring="r",namespace="n",shard="b",state="uncertain"} 0
controller_sharding_shard_state{controllerring="r",namespace="n",shard="b",state="unknown"} 1
`)
}

// TestStateBeforeCacheSync shows that the other metrics stay visible.
func TestStateBeforeCacheSync(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&metrics.State{Reader: fakeCache{err: errors.New("not synced")}})
	expose(t, registry, "")
}
