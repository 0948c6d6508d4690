// Package metrics has the metrics of the sharder and its rings. Metrics that other implementations of the
// wire contract also have keep their names and labels, so that existing dashboards work.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
)

const namespace = "controller_sharding"

// ringLabel is the label with the ring's name.
const ringLabel = "controllerring"

// Metrics are the counters, gauges and histograms that the sharder updates.
type Metrics struct {
	assignments, movements, drains, calculations, transitions *prometheus.CounterVec
	admissions, syncs, moves, drainTimes                      *prometheus.HistogramVec
	objects, unassigned, outstanding, oldest                  *prometheus.GaugeVec
}

// New creates the metrics and registers them.
func New(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		assignments:  counter("assignments_total", "Objects that were assigned at admission", "group", "resource"),
		movements:    counter("movements_total", "Objects that the sharder assigned or moved after admission", "group", "resource"),
		drains:       counter("drains_total", "Objects whose owner was asked to release them", "group", "resource"),
		calculations: counter("ring_calculations_total", "Calculations of the hash ring"),
		transitions:  counter("membership_transitions_total", "Changes of the states of shards", "from", "to"),

		admissions: histogram("admission_duration_seconds", "Duration of requests to the webhook, by result", 0.00005, "result"),
		syncs:      histogram("sync_duration_seconds", "Duration of resyncs, including their moves", 0.01),
		moves:      histogram("move_duration_seconds", "Time from the start of the pass that found an object with the wrong shard until it was written", 0.005),
		drainTimes: histogram("drain_duration_seconds", "Duration of drains", 0.1),

		objects:     gauge("objects", "Objects at the last resync, by shard", "group", "resource", "shard"),
		unassigned:  gauge("unassigned_objects", "Objects that are unassigned or orphaned, as of the last pass"),
		outstanding: gauge("drains_outstanding", "Drains that are outstanding"),
		oldest:      gauge("drain_oldest_timestamp_seconds", "Time at which the oldest outstanding drain began, or 0"),
	}
	registry.MustRegister(m.assignments, m.movements, m.drains, m.calculations, m.transitions,
		m.admissions, m.syncs, m.moves, m.drainTimes, m.objects, m.unassigned, m.outstanding, m.oldest)
	return m
}

// CertificateExpiry is a metric with the time at which the webhook's certificate expires. expiresAt returns the zero time
// without one.
func CertificateExpiry(expiresAt func() time.Time) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "webhook_certificate_expiry_timestamp_seconds",
		Help: "Time at which the certificate of the webhook expires, or 0 without one",
	}, func() float64 {
		at := expiresAt()
		if at.IsZero() {
			return 0
		}
		return float64(at.Unix())
	})
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, ofRing(labels))
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, ofRing(labels))
}

// histogram has exponential buckets: the finest is the first upper bound, and each bound doubles the previous one.
func histogram(name, help string, finest float64, labels ...string) *prometheus.HistogramVec {
	const steps = 16
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(finest, 2, steps),
	}, ofRing(labels))
}

func ofRing(labels []string) []string { return append([]string{ringLabel}, labels...) }

// Measure sets the callbacks of a Mover to update the metrics.
func (m *Metrics) Measure(options *moves.Options) {
	options.OnWrite = func(ring string, resource schema.GroupResource, action assignment.Action, took time.Duration) {
		switch action {
		case assignment.Drain:
			m.DrainRequested(ring, resource)
		case assignment.Assign, assignment.Move:
			m.Moved(ring, resource, took)
		case assignment.Undrain, assignment.Keep:
		}
	}
	options.OnSynced = func(ring string, counts moves.Counts, _ error) {
		m.Synced(ring, counts.Objects, counts.Unassigned, counts.Took)
	}
	options.OnDrained = func(ring string, report moves.DrainReport) {
		m.Draining(ring, report.Outstanding, report.Oldest, report.Ended)
	}
}

// Assigned counts an object that was assigned at admission.
func (m *Metrics) Assigned(ring string, resource schema.GroupResource) {
	m.assignments.WithLabelValues(ring, resource.Group, resource.Resource).Inc()
}

// Moved counts an object that the sharder assigned or moved after admission, and measures how long it took.
func (m *Metrics) Moved(ring string, resource schema.GroupResource, took time.Duration) {
	m.movements.WithLabelValues(ring, resource.Group, resource.Resource).Inc()
	m.moves.WithLabelValues(ring).Observe(took.Seconds())
}

// DrainRequested counts an object whose owner was asked to release it.
func (m *Metrics) DrainRequested(ring string, resource schema.GroupResource) {
	m.drains.WithLabelValues(ring, resource.Group, resource.Resource).Inc()
}

// Calculated counts a calculation of a ring.
func (m *Metrics) Calculated(ring string) { m.calculations.WithLabelValues(ring).Inc() }

// Transition counts a change of a shard's state. A new shard has the previous state "".
func (m *Metrics) Transition(ring string, from, to membership.State) {
	m.transitions.WithLabelValues(ring, string(from), string(to)).Inc()
}

// Admission measures a request.
func (m *Metrics) Admission(ring, result string, took time.Duration) {
	m.admissions.WithLabelValues(ring, result).Observe(took.Seconds())
}

// Synced sets the numbers of objects, and measures the duration of the resync; 0 if it was not a resync.
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

// Draining sets the number of outstanding drains and the start of the oldest, and measures those that ended.
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

// Forget removes all series of a ring, so that a deleted ring does not keep alerts firing.
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
