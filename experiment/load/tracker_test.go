package load

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

var key = client.ObjectKey{Namespace: "project", Name: "website"}

func readyWebsite(generation int64) *webhostingv1alpha1.Website {
	return &webhostingv1alpha1.Website{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Status:     webhostingv1alpha1.WebsiteStatus{ObservedGeneration: generation, Phase: webhostingv1alpha1.PhaseReady},
	}
}

func TestTrackerMeasuresUntilGenerationIsReady(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	for name, test := range map[string]struct {
		events func(tr *tracker)
		// observed is the number of durations in the histogram, and seconds their sum.
		observed uint64
		seconds  float64
		waiting  int
	}{
		"response before watch event": {func(tr *tracker) {
			tr.request(key, at(0))
			tr.respond(key, 1)
			tr.observe(readyWebsite(1), "a", "", at(2))
		}, 1, 2, 0},
		"watch event before response": {func(tr *tracker) {
			tr.request(key, at(0))
			tr.observe(readyWebsite(1), "a", "", at(2))
			tr.respond(key, 1)
		}, 1, 2, 0},
		"older generation is ready": {func(tr *tracker) {
			tr.request(key, at(0))
			tr.respond(key, 2)
			tr.observe(readyWebsite(1), "a", "", at(2))
		}, 0, 0, 1},
		"one generation completes two changes": {func(tr *tracker) {
			tr.request(key, at(0))
			tr.respond(key, 2)
			tr.request(key, at(1))
			tr.respond(key, 3)
			tr.observe(readyWebsite(3), "a", "", at(4))
		}, 2, 7, 0},
		"failed": {func(tr *tracker) {
			tr.request(key, at(0))
			tr.cancel(key)
		}, 0, 0, 0},
		"overdue at the end": {func(tr *tracker) {
			tr.request(key, at(0))
			tr.respond(key, 2)
			tr.finish(at(3), 5*time.Second)
			tr.finish(at(7), 5*time.Second)
		}, 1, 7, 1},
		"deleted": {func(tr *tracker) {
			tr.request(key, at(0))
			tr.respond(key, 1)
			tr.deleting(key, at(3), 5*time.Second)
			tr.observeDeletion(key)
		}, 0, 0, 0},
		"deleted when overdue": {func(tr *tracker) {
			tr.request(key, at(0))
			tr.respond(key, 1)
			tr.deleting(key, at(6), 5*time.Second)
			tr.observeDeletion(key)
		}, 1, 6, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTracker(newMetrics(), nil)
			test.events(tr)
			count, sum := observed(t, tr.metrics, ReadyTime)
			if count != test.observed || sum != test.seconds || tr.waiting() != test.waiting {
				t.Errorf("got %d durations with a sum of %g s and %d waiting, want %d, %g s and %d", count, sum, tr.waiting(), test.observed, test.seconds, test.waiting)
			}
		})
	}
}

// observed returns the number and the sum of the observations of a histogram, over all labels.
func observed(t *testing.T, m *metrics, name string) (count uint64, sum float64) {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			count += metric.GetHistogram().GetSampleCount()
			sum += metric.GetHistogram().GetSampleSum()
		}
	}
	return count, sum
}

func TestTrackerCountsOwnersAndMoves(t *testing.T) {
	t.Parallel()
	running := map[string]bool{"a": true, "b": true}
	tr := newTracker(newMetrics(), func(instance string) bool { return running[instance] })
	check := func(name string, metric prometheus.Collector, want float64) {
		t.Helper()
		if got := testutil.ToFloat64(metric); got != want {
			t.Errorf("%s: got %g, want %g", name, got, want)
		}
	}
	tr.observeLease("a", true)
	tr.observe(readyWebsite(1), "", "", time.Now())
	tr.observe(readyWebsite(1), "a", "a/", time.Now())
	tr.updateGauges()
	check("ownerless", tr.metrics.ownerless, 0)
	check("moves after the first assignment", tr.metrics.moves, 0)
	check("label writes after the first assignment", tr.metrics.labelWrites, 0)
	if owned := tr.ownedBy("a"); !slices.Equal(owned, []string{"project/website"}) || len(tr.ownedBy("b")) != 0 {
		t.Errorf("a owns %v and b owns %v", owned, tr.ownedBy("b"))
	}
	tr.observe(readyWebsite(1), "a", "a/true", time.Now())
	tr.observe(readyWebsite(1), "b", "b/", time.Now())
	tr.updateGauges()
	check("moves", tr.metrics.moves, 1)
	check("label writes", tr.metrics.labelWrites, 2)
	check("ownerless, with an owner that holds no Lease", tr.metrics.ownerless, 1)
	check("owned by a", tr.metrics.owned.WithLabelValues("a"), 0)
	check("owned by b", tr.metrics.owned.WithLabelValues("b"), 1)
	tr.observeLease("b", true)
	tr.updateGauges()
	check("ownerless, with a live owner", tr.metrics.ownerless, 0)
	running["b"] = false // killed; its Lease still names it
	tr.updateGauges()
	check("ownerless, with a killed owner", tr.metrics.ownerless, 1)
}
