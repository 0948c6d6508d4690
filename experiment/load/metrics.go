package load

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/ringmaster-project/ringmaster/experiment/scenario"
)

// Process is the name under which the users' own figures are noted.
const Process = "users"

// The names of what is noted.
const (
	OperationsTotal = "experiment_operations_total"
	PlannedTotal    = "experiment_planned_operations_total"
	RetriesTotal    = "experiment_retries_total"
	Lateness        = "experiment_lateness_seconds"
	RequestTime     = "experiment_request_seconds"
	ReadyTime       = "experiment_ready_seconds"
	Objects         = "experiment_objects"
	Waiting         = "experiment_waiting_objects"
	Ownerless       = "experiment_ownerless_objects"
	Owned           = "experiment_owned_objects"
	MovesTotal      = "experiment_moves_total"
	LabelWrites     = "experiment_label_writes_total"
)

// metrics are what the users say of themselves and of what they see.
type metrics struct {
	registry           *prometheus.Registry
	planned            prometheus.Counter
	operations         *prometheus.CounterVec
	retries            prometheus.Counter
	lateness, ready    prometheus.Histogram
	requests           *prometheus.HistogramVec
	objects, waiting   prometheus.Gauge
	ownerless          prometheus.Gauge
	owned              *prometheus.GaugeVec
	moves, labelWrites prometheus.Counter
}

// buckets are so narrow that it does not matter what is between two of them, from a millisecond to about two minutes. The
// limits of the objectives are among them.
func buckets() []float64 {
	all := append(prometheus.ExponentialBuckets(0.001, 1.25, 53), 1, 5)
	slices.Sort(all)
	return all
}

func newMetrics() *metrics {
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		planned:    prometheus.NewCounter(prometheus.CounterOpts{Name: PlannedTotal, Help: "Operations that were due."}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: OperationsTotal, Help: "Operations that were done."}, []string{"do", "outcome"}),
		retries:    prometheus.NewCounter(prometheus.CounterOpts{Name: RetriesTotal, Help: "Requests that were sent again, since the API server was not there."}),
		lateness:   histogram(Lateness, "How much later than planned an operation was begun."),
		ready:      histogram(ReadyTime, "From a change to the observed generation being Ready."),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: RequestTime, Help: "How long a user's request took.", Buckets: buckets(),
		}, []string{"do"}),
		objects:     prometheus.NewGauge(prometheus.GaugeOpts{Name: Objects, Help: "Websites that there are."}),
		waiting:     prometheus.NewGauge(prometheus.GaugeOpts{Name: Waiting, Help: "Websites that are not yet as they were wanted."}),
		ownerless:   prometheus.NewGauge(prometheus.GaugeOpts{Name: Ownerless, Help: "Websites that no live instance has."}),
		owned:       prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: Owned, Help: "Websites of an instance."}, []string{"instance"}),
		moves:       prometheus.NewCounter(prometheus.CounterOpts{Name: MovesTotal, Help: "How often a Website went to another instance."}),
		labelWrites: prometheus.NewCounter(prometheus.CounterOpts{Name: LabelWrites, Help: "Writes of a Website that changed its labels of the ring, after its creation."}),
	}
	m.registry.MustRegister(m.planned, m.operations, m.retries, m.lateness, m.ready, m.requests, m.objects, m.waiting, m.ownerless,
		m.owned, m.moves, m.labelWrites)
	// What is counted for the first time later would not be seen to have grown.
	for _, do := range []scenario.Kind{scenario.Create, scenario.Change, scenario.Delete} {
		for _, outcome := range []string{done, failed} {
			m.operations.WithLabelValues(string(do), outcome)
		}
		m.requests.WithLabelValues(string(do))
	}
	return m
}

// How an operation may end.
const done, failed = "done", "failed"

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets()})
}

// text is all of it in Prometheus' format.
func (m *metrics) text() ([]byte, error) {
	families, err := m.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering the users' figures: %w", err)
	}
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return nil, fmt.Errorf("writing the users' figures: %w", err)
		}
	}
	return out.Bytes(), nil
}
