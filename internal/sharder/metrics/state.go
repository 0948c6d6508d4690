package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
)

// State collects metrics of rings and shards from the cache. Every replica exposes the same series, so
// queries must aggregate over replicas.
type State struct {
	// Reader reads the cache: rings, and the Leases that name one.
	Reader client.Reader
}

// unknown is the state of a Lease without a state label: it is new, or its ring does not accept it.
const unknown membership.State = "unknown"

var (
	ringGeneration = ofRings("metadata_generation", "The generation of a ring's spec")
	ringObserved   = ofRings("observed_generation", "The generation of a ring's spec that the sharder last acted on")
	ringShards     = ofRings("status_shards", "Known shards of a ring, including dead ones")
	ringAvailable  = ofRings("status_available_shards", "Shards of a ring that are assigned objects")
	shardInfo      = ofShards("info", "1 for each shard", "uid")
	shardState     = ofShards("state", "1 for a shard's current state, and 0 for the other states", "state")
)

func ofRings(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "controllerring", name), help, []string{ringLabel, "uid"}, nil)
}

func ofShards(name, help, label string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "shard", name), help, []string{"namespace", "shard", ringLabel, label}, nil)
}

// Describe implements prometheus.Collector.
func (s *State) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{ringGeneration, ringObserved, ringShards, ringAvailable, shardInfo, shardState} {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector. Before the cache has synced it returns no metrics, and
// neither delays the scrape nor fails it.
func (s *State) Collect(metrics chan<- prometheus.Metric) {
	const limit = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	rings := &shardingv1alpha1.ControllerRingList{}
	var declared map[string]bool // nil if the cache has no rings
	if s.Reader.List(ctx, rings, client.UnsafeDisableDeepCopy) == nil {
		declared = make(map[string]bool, len(rings.Items))
		for i := range rings.Items {
			showRing(&rings.Items[i], metrics)
			declared[rings.Items[i].Name] = true
		}
	}
	leases := &coordinationv1.LeaseList{}
	if s.Reader.List(ctx, leases, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	for i := range leases.Items {
		// Leases can name rings that do not exist, and each would add seven series.
		if declared == nil || declared[leases.Items[i].Labels[shardingv1alpha1.LabelControllerRing]] {
			showShard(&leases.Items[i], metrics)
		}
	}
}

func showRing(ring *shardingv1alpha1.ControllerRing, metrics chan<- prometheus.Metric) {
	for description, value := range map[*prometheus.Desc]int64{
		ringGeneration: ring.Generation,
		ringObserved:   ring.Status.ObservedGeneration,
		ringShards:     int64(ring.Status.Shards),
		ringAvailable:  int64(ring.Status.AvailableShards),
	} {
		show(metrics, description, value, ring.Name, string(ring.UID))
	}
}

func showShard(lease *coordinationv1.Lease, metrics chan<- prometheus.Metric) {
	ring := lease.Labels[shardingv1alpha1.LabelControllerRing]
	show(metrics, shardInfo, 1, lease.Namespace, lease.Name, ring, string(lease.UID))
	shown, known := membership.State(lease.Labels[shardingv1alpha1.LabelState]), false
	for _, state := range membership.States {
		show(metrics, shardState, one(state == shown), lease.Namespace, lease.Name, ring, string(state))
		known = known || state == shown
	}
	show(metrics, shardState, one(!known), lease.Namespace, lease.Name, ring, string(unknown))
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func show(metrics chan<- prometheus.Metric, description *prometheus.Desc, value int64, labels ...string) {
	metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, float64(value), labels...)
}
