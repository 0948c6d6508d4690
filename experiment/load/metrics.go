package load

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/ringmaster-project/ringmaster/experiment/scenario"
)

// Process is the process name under which the generator's own metrics are stored.
const Process = "users"

// The names of the generator's metrics.
const (
	OperationsTotal = "experiment_operations_total"
	PlannedTotal    = "experiment_planned_operations_total"
	RetriesTotal    = "experiment_retries_total"
	Lateness        = "experiment_lateness_seconds"
	ResponseTime    = "experiment_response_seconds"
	ReadyTime       = "experiment_ready_seconds"
	Objects         = "experiment_objects"
	Waiting         = "experiment_waiting_objects"
	Ownerless       = "experiment_ownerless_objects"
	Owned           = "experiment_owned_objects"
	MovesTotal      = "experiment_moves_total"
	LabelWrites     = "experiment_label_writes_total"
)

// metrics describe the generator, and what it observes.
type metrics struct {
	registry           *prometheus.Registry
	planned            prometheus.Counter
	operations         *prometheus.CounterVec
	retries            prometheus.Counter
	lateness, ready    prometheus.Histogram
	responses          *prometheus.HistogramVec
	objects, waiting   prometheus.Gauge
	ownerless          prometheus.Gauge
	owned              *prometheus.GaugeVec
	moves, labelWrites prometheus.Counter
}

// buckets range from a millisecond to about two minutes, in steps of a quarter, so that interpolation hardly matters. The limits
// of the objectives are among them.
func buckets() []float64 {
	all := append(prometheus.ExponentialBuckets(0.001, 1.25, 53), 1, 5)
	slices.Sort(all)
	return all
}

func newMetrics() *metrics {
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		planned:    prometheus.NewCounter(prometheus.CounterOpts{Name: PlannedTotal, Help: "Operations that were due."}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: OperationsTotal, Help: "Operations that ended, by outcome."}, []string{"do", "outcome"}),
		retries:    prometheus.NewCounter(prometheus.CounterOpts{Name: RetriesTotal, Help: "Requests that were repeated because the API server was unavailable."}),
		lateness:   histogram(Lateness, "Time from an operation's due time until it started."),
		ready:      histogram(ReadyTime, "Time from a change's due time until its generation was observed to be Ready."),
		responses: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: ResponseTime, Help: "Time from an operation's due time until its response, including retries.", Buckets: buckets(),
		}, []string{"do"}),
		objects:     prometheus.NewGauge(prometheus.GaugeOpts{Name: Objects, Help: "Existing Websites."}),
		waiting:     prometheus.NewGauge(prometheus.GaugeOpts{Name: Waiting, Help: "Websites whose last change is not Ready yet."}),
		ownerless:   prometheus.NewGauge(prometheus.GaugeOpts{Name: Ownerless, Help: "Websites without a live owner."}),
		owned:       prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: Owned, Help: "Websites by owner."}, []string{"instance"}),
		moves:       prometheus.NewCounter(prometheus.CounterOpts{Name: MovesTotal, Help: "Changes of a Website's owner."}),
		labelWrites: prometheus.NewCounter(prometheus.CounterOpts{Name: LabelWrites, Help: "Writes that changed a Website's shard or drain label after its creation."}),
	}
	m.registry.MustRegister(m.planned, m.operations, m.retries, m.lateness, m.ready, m.responses, m.objects, m.waiting, m.ownerless,
		m.owned, m.moves, m.labelWrites)
	// A counter that first appears with a value other than 0 would not count as an increase.
	for _, do := range []scenario.Kind{scenario.Create, scenario.Change, scenario.Delete} {
		for _, outcome := range []string{done, failed} {
			m.operations.WithLabelValues(string(do), outcome)
		}
		m.responses.WithLabelValues(string(do))
	}
	return m
}

// The outcomes of an operation.
const done, failed = "done", "failed"

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets()})
}

// text returns all metrics in Prometheus' text format.
func (m *metrics) text() ([]byte, error) {
	families, err := m.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering the load generator's metrics: %w", err)
	}
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return nil, fmt.Errorf("encoding the load generator's metrics: %w", err)
		}
	}
	return out.Bytes(), nil
}
