// Package metrics is what the sharder measures of itself and of its rings. The names and labels that
// other implementations of the wire contract have too are theirs, so that their dashboards work here.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/internal/membership"
)

const namespace = "controller_sharding"

// ringLabel names the ring in all that is shown of one.
const ringLabel = "controllerring"

// Metrics are all that is counted and measured.
type Metrics struct {
	assignments, movements, drains, calculations, transitions *prometheus.CounterVec
	admissions, syncs, moves, drainTimes                      *prometheus.HistogramVec
	objects, unassigned, outstanding, oldest                  *prometheus.GaugeVec
}

// New makes the metrics and registers them.
func New(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		assignments:  counter("assignments_total", "Objects that got a shard at admission", "group", "resource"),
		movements:    counter("movements_total", "Objects that the sharder gave to a shard itself", "group", "resource"),
		drains:       counter("drains_total", "Objects that a shard was asked to let go", "group", "resource"),
		calculations: counter("ring_calculations_total", "Calculations of the hash ring"),
		transitions:  counter("membership_transitions_total", "Changes of the states of shards", "from", "to"),

		admissions: histogram("admission_duration_seconds", "Time that requests spent in the webhook, by what came of them", 0.00005, "result"),
		syncs:      histogram("sync_duration_seconds", "Time that looking at all objects of a ring took, with the moves that came of it", 0.01),
		moves:      histogram("move_duration_seconds", "Time from the start of the look that found an object in the wrong place until it was written", 0.005),
		drainTimes: histogram("drain_duration_seconds", "Time from asking a shard to let an object go until that was over", 0.1),

		objects:     gauge("objects", "Objects at the last sync, by their shard", "group", "resource", "shard"),
		unassigned:  gauge("unassigned_objects", "Objects that had no live shard after the last sync"),
		outstanding: gauge("drains_outstanding", "Objects that shards were asked to let go and have not"),
		oldest:      gauge("drain_oldest_timestamp_seconds", "Since when the oldest outstanding drain is waited for, or 0"),
	}
	registry.MustRegister(m.assignments, m.movements, m.drains, m.calculations, m.transitions,
		m.admissions, m.syncs, m.moves, m.drainTimes, m.objects, m.unassigned, m.outstanding, m.oldest)
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, ofRing(labels))
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, ofRing(labels))
}

// histogram has buckets from the finest on, each twice as wide as the one before.
func histogram(name, help string, finest float64, labels ...string) *prometheus.HistogramVec {
	const steps = 16
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(finest, 2, steps),
	}, ofRing(labels))
}

func ofRing(labels []string) []string { return append([]string{ringLabel}, labels...) }

// Assigned counts an object that got a shard at admission.
func (m *Metrics) Assigned(ring string, resource schema.GroupResource) {
	m.assignments.WithLabelValues(ring, resource.Group, resource.Resource).Inc()
}

// Moved counts an object that the sharder gave to a shard, and how long it took.
func (m *Metrics) Moved(ring string, resource schema.GroupResource, took time.Duration) {
	m.movements.WithLabelValues(ring, resource.Group, resource.Resource).Inc()
	m.moves.WithLabelValues(ring).Observe(took.Seconds())
}

// Drained counts an object that a shard was asked to let go.
func (m *Metrics) Drained(ring string, resource schema.GroupResource) {
	m.drains.WithLabelValues(ring, resource.Group, resource.Resource).Inc()
}

// Calculated counts a calculation of a ring.
func (m *Metrics) Calculated(ring string) { m.calculations.WithLabelValues(ring).Inc() }

// Transition counts a change of a shard's state. One that was not known before comes from "".
func (m *Metrics) Transition(ring string, from, to membership.State) {
	m.transitions.WithLabelValues(ring, string(from), string(to)).Inc()
}

// Admission measures a request.
func (m *Metrics) Admission(ring, result string, took time.Duration) {
	m.admissions.WithLabelValues(ring, result).Observe(took.Seconds())
}

// Synced shows what is known of the objects, and how long the resync took that found it out; 0 if it was none.
func (m *Metrics) Synced(ring string, objects map[schema.GroupResource]map[string]int, unassigned int, took time.Duration) {
	m.objects.DeletePartialMatch(prometheus.Labels{ringLabel: ring})
	for resource, shards := range objects {
		for shard, n := range shards {
			m.objects.WithLabelValues(ring, resource.Group, resource.Resource, shard).Set(float64(n))
		}
	}
	m.unassigned.WithLabelValues(ring).Set(float64(unassigned))
	if took > 0 {
		m.syncs.WithLabelValues(ring).Observe(took.Seconds())
	}
}

// Draining shows how many drains are outstanding, and since when, and measures those that ended.
func (m *Metrics) Draining(ring string, outstanding int, oldest time.Time, ended []time.Duration) {
	m.outstanding.WithLabelValues(ring).Set(float64(outstanding))
	since := 0.0
	if outstanding > 0 {
		since = float64(oldest.UnixMilli()) / 1000
	}
	m.oldest.WithLabelValues(ring).Set(since)
	for _, took := range ended {
		m.drainTimes.WithLabelValues(ring).Observe(took.Seconds())
	}
}

// Forget removes all that is shown of a ring, so that nobody is alarmed by one that is gone.
func (m *Metrics) Forget(ring string) {
	labels := prometheus.Labels{ringLabel: ring}
	for _, vector := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{
		m.assignments, m.movements, m.drains, m.calculations, m.transitions, m.admissions, m.syncs, m.moves, m.drainTimes,
		m.objects, m.unassigned, m.outstanding, m.oldest,
	} {
		vector.DeletePartialMatch(labels)
	}
}
