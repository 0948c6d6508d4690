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

// State shows rings and shards as the cache has them, whenever somebody looks. Every replica shows
// the same, so that queries are to aggregate over them.
type State struct {
	// Reader reads the cache: rings, and the Leases that name one.
	Reader client.Reader
}

// unknown is shown of a Lease that the sharder has not called anything: it is new, or its ring does
// not take it.
const unknown membership.State = "unknown"

var (
	ringGeneration = ofRings("metadata_generation", "The generation of a ring's spec")
	ringObserved   = ofRings("observed_generation", "The generation of a ring's spec that its status is about")
	ringShards     = ofRings("status_shards", "Shards of a ring that are known")
	ringAvailable  = ofRings("status_available_shards", "Shards of a ring that are members")
	shardInfo      = ofShards("info", "1 for each shard", "uid")
	shardState     = ofShards("state", "1 for the state that a shard is in, and 0 for the others", "state")
)

func ofRings(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "controllerring", name), help, []string{ringLabel, "uid"}, nil)
}

func ofShards(name, help, label string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "shard", name), help, []string{"namespace", "shard", ringLabel, label}, nil)
}

// Describe is for the registry.
func (s *State) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{ringGeneration, ringObserved, ringShards, ringAvailable, shardInfo, shardState} {
		descriptions <- description
	}
}

// Collect reads the cache. While that has not synced there is nothing to show, which must not keep
// anybody from seeing the other metrics, nor make them wait.
func (s *State) Collect(metrics chan<- prometheus.Metric) {
	const limit = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	rings := &shardingv1alpha1.ControllerRingList{}
	var declared map[string]bool // or nil, where rings are not in the cache
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
		// Anybody who may create Leases can name rings that there are not, and each would be seven series.
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
