package coordination

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of one participant.
type metrics struct {
	waits, pendingMembers *prometheus.GaugeVec
	actions               *prometheus.CounterVec
	duration              *prometheus.HistogramVec
	fenced                prometheus.Counter
}

func newMetrics(system, instance string) *metrics {
	labels := prometheus.Labels{"system": system, "instance": instance}
	return &metrics{
		waits: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coordination_waits", ConstLabels: labels,
			Help: "Number of reasons why an action waits, as this participant saw it last.",
		}, []string{"action", "class"}),
		pendingMembers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coordination_pending_members", ConstLabels: labels,
			Help: "Number of members that an action would disturb (ready) or leave out (left_out), as this participant saw it last.",
		}, []string{"action", "class", "state"}),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coordination_acts_total", ConstLabels: labels,
			Help: "Number of actions that this participant has ended: done or given_up.",
		}, []string{"action", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "coordination_act_duration_seconds", ConstLabels: labels,
			Help:    "Duration of an action, from taking the lock to its end.",
			Buckets: []float64{.1, .5, 1, 5, 15, 60, 300, 900, 3600},
		}, []string{"action"}),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coordination_lock_lost_total", ConstLabels: labels,
			Help: "Number of times that this participant lost the lock before it released it.",
		}),
	}
}

// Metrics returns a Prometheus collector. Register it with the other collectors of the program.
func (c *Coordinator) Metrics() prometheus.Collector { return c.metrics }

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.waits, m.pendingMembers, m.actions, m.duration, m.fenced}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(to)
	}
}

func (m *metrics) observeDecision(v *decision) {
	m.waits.WithLabelValues(string(v.Action), v.Class).Set(float64(len(v.Waits)))
	m.pendingMembers.WithLabelValues(string(v.Action), v.Class, "ready").Set(float64(len(v.Members)))
	m.pendingMembers.WithLabelValues(string(v.Action), v.Class, "left_out").Set(float64(len(v.LeftOut)))
}

func (m *metrics) observeEnd(done *DoneRecord, took time.Duration) {
	outcome := "done"
	if done.Failure != "" {
		outcome = "given_up"
	}
	m.actions.WithLabelValues(string(done.Action), outcome).Inc()
	m.duration.WithLabelValues(string(done.Action)).Observe(took.Seconds())
}
