// Package metrics is what the sharder measures of itself and of its rings. The names that other
// implementations of the wire contract have too are theirs, so that their dashboards work here.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/internal/membership"
)

const namespace = "controller_sharding"

// Metrics are all that is counted and measured.
type Metrics struct {
	assignments, movements, drains, calculations, transitions *prometheus.CounterVec
	admissions                                                *prometheus.HistogramVec
	objects, unassigned, outstanding, oldest                  *prometheus.GaugeVec
	syncs                                                     *prometheus.HistogramVec
}

// New makes the metrics and registers them.
func New(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	m := &Metrics{
		assignments:  counter("assignments_total", "Objects that got a shard at admission", "ringName", "group", "resource"),
		movements:    counter("movements_total", "Objects that the sharder gave to another shard", "ringName", "group", "resource"),
		drains:       counter("drains_total", "Objects that a shard was asked to let go", "ringName", "group", "resource"),
		calculations: counter("ring_calculations_total", "Calculations of the hash ring", "ringName"),
		transitions:  counter("membership_transitions_total", "Changes of the states of shards", "ringName", "from", "to"),
		admissions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "admission_duration_seconds", Help: "Time that requests spent in the webhook, by what came of them",
			Buckets: prometheus.ExponentialBuckets(0.00005, 2, 16),
		}, []string{"ringName", "result"}),
		syncs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "sync_duration_seconds", Help: "Time that looking at all objects of a ring took, with the moves that came of it",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 16),
		}, []string{"ringName"}),
		objects:     gauge("objects", "Objects at the last sync, by their shard", "ringName", "group", "resource", "shard"),
		unassigned:  gauge("unassigned_objects", "Objects that had no live shard after the last sync", "ringName"),
		outstanding: gauge("drains_outstanding", "Objects that shards were asked to let go and have not", "ringName"),
		oldest:      gauge("drain_oldest_timestamp_seconds", "Since when the oldest outstanding drain is waited for, or 0", "ringName"),
	}
	registry.MustRegister(m.assignments, m.movements, m.drains, m.calculations, m.transitions, m.admissions, m.syncs,
		m.objects, m.unassigned, m.outstanding, m.oldest)
	return m
}

// Assigned counts an object that got a shard at admission.
func (m *Metrics) Assigned(ring string, resource schema.GroupResource) {
	m.assignments.WithLabelValues(ring, resource.Group, resource.Resource).Inc()
}

// Moved counts an object that the sharder gave to a shard, and Drained one that it asked for.
func (m *Metrics) Moved(ring string, resource schema.GroupResource) {
	m.movements.WithLabelValues(ring, resource.Group, resource.Resource).Inc()
}

// Drained counts an object that a shard was asked to let go.
func (m *Metrics) Drained(ring string, resource schema.GroupResource) {
	m.drains.WithLabelValues(ring, resource.Group, resource.Resource).Inc()
}

// Calculated counts a calculation of a ring.
func (m *Metrics) Calculated(ring string) { m.calculations.WithLabelValues(ring).Inc() }

// Transition counts a change of a shard's state.
func (m *Metrics) Transition(ring string, from, to membership.State) {
	m.transitions.WithLabelValues(ring, string(from), string(to)).Inc()
}

// Admission measures a request.
func (m *Metrics) Admission(ring, result string, took time.Duration) {
	m.admissions.WithLabelValues(ring, result).Observe(took.Seconds())
}

// Synced shows what a sync found.
func (m *Metrics) Synced(ring string, objects map[schema.GroupResource]map[string]int, unassigned int, took time.Duration) {
	m.objects.DeletePartialMatch(prometheus.Labels{"ringName": ring})
	for resource, shards := range objects {
		for shard, n := range shards {
			m.objects.WithLabelValues(ring, resource.Group, resource.Resource, shard).Set(float64(n))
		}
	}
	m.unassigned.WithLabelValues(ring).Set(float64(unassigned))
	m.syncs.WithLabelValues(ring).Observe(took.Seconds())
}

// Draining shows how many drains are outstanding, and since when.
func (m *Metrics) Draining(ring string, outstanding int, oldest time.Time) {
	m.outstanding.WithLabelValues(ring).Set(float64(outstanding))
	since := 0.0
	if outstanding > 0 {
		since = float64(oldest.UnixMilli()) / 1000
	}
	m.oldest.WithLabelValues(ring).Set(since)
}

// Forget removes all that is shown of a ring.
func (m *Metrics) Forget(ring string) {
	labels := prometheus.Labels{"ringName": ring}
	for _, vector := range []*prometheus.GaugeVec{m.objects, m.unassigned, m.outstanding, m.oldest} {
		vector.DeletePartialMatch(labels)
	}
}
