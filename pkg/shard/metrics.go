package shard

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// The metrics of a shard, in controller-runtime's registry.
var (
	labelsOfShard = []string{"controllerring", "shard"}

	handovers = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "ringmaster", Subsystem: "shard", Name: "handover_duration_seconds",
		Help:    "How long it took to release an object once no reconcile of it was running, by result.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, append(labelsOfShard, "result"))
	leaseLosses = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "ringmaster", Subsystem: "shard", Name: "lease_losses_total",
		Help: "Number of times that this process has lost its shard Lease. The process ends when that happens.",
	}, labelsOfShard)

	ownedObjects = description("owned_objects", "Main objects that this shard owns, by kind.", "group", "kind")
	openDrains   = description("drains_outstanding", "Objects that this shard owns and that are being drained.")
	oldestDrain  = description("oldest_drain_seconds", "Time since the start of the oldest drain.")
	blocked      = description("blocked_objects", "Objects that are not reconciled because they are being released.")
	leaseAge     = description("lease_age_seconds", "Time since the last successful renewal of the shard Lease began.")
	isMember     = description("member", "Whether this process is a member of its ring right now.")
)

func description(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("ringmaster", "shard", name), help, append(labelsOfShard, labels...), nil)
}

// collector reads the state of the shards of this process when the metrics are scraped.
type collector struct {
	mu     sync.Mutex
	shards map[*Shard]bool
}

var (
	running  = &collector{shards: map[*Shard]bool{}}
	register = sync.OnceValue(func() error {
		return errors.Join(metrics.Registry.Register(handovers), metrics.Registry.Register(leaseLosses), metrics.Registry.Register(running))
	})
)

// add exposes the metrics of a shard until remove is called.
func (c *collector) add(shard *Shard) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shards[shard] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.shards, shard)
	}
}

// Describe implements prometheus.Collector.
func (*collector) Describe(into chan<- *prometheus.Desc) {
	for _, each := range []*prometheus.Desc{ownedObjects, openDrains, oldestDrain, blocked, leaseAge, isMember} {
		into <- each
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(into chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for shard := range c.shards {
		shard.collect(into)
	}
}

func (s *Shard) collect(into chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		into <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{s.Ring(), s.Name()}, labels...)...)
	}
	stats := s.owned.Stats()
	for kind, n := range stats.Owned {
		gauge(ownedObjects, float64(n), kind.Group, kind.Kind)
	}
	gauge(openDrains, float64(stats.Draining))
	oldest := 0.0
	if !stats.OldestDrain.IsZero() {
		oldest = time.Since(stats.OldestDrain).Seconds()
	}
	gauge(oldestDrain, oldest)
	gauge(blocked, float64(stats.Blocked))
	member := 0.0
	if current := s.member.Load(); current != nil {
		gauge(leaseAge, current.Age().Seconds())
		if current.Valid() {
			member = 1
		}
	}
	gauge(isMember, member)
}

func (s *Shard) observeRelease(result ownership.Result, took time.Duration) {
	handovers.WithLabelValues(s.Ring(), s.Name(), string(result)).Observe(took.Seconds())
}

func (s *Shard) countLeaseLoss() { leaseLosses.WithLabelValues(s.Ring(), s.Name()).Inc() }
