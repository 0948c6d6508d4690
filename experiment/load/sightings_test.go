package load

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

var key = client.ObjectKey{Namespace: "project", Name: "website"}

func ready(generation int64) *webhostingv1alpha1.Website {
	return &webhostingv1alpha1.Website{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Status:     webhostingv1alpha1.WebsiteStatus{ObservedGeneration: generation, Phase: webhostingv1alpha1.PhaseReady},
	}
}

// A change is fulfilled when the generation that it has made is Ready, in whatever order that is heard of.
func TestFulfilled(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	for name, test := range map[string]struct {
		happens func(s *sightings)
		// fulfilled are how many, and for how long they took together.
		fulfilled uint64
		seconds   float64
		waiting   int
	}{
		"first the answer": {func(s *sightings) {
			s.expect(key, at(0))
			s.want(key, 1)
			s.see(ready(1), "a", "", at(2))
		}, 1, 2, 0},
		"first the watch": {func(s *sightings) {
			s.expect(key, at(0))
			s.see(ready(1), "a", "", at(2))
			s.want(key, 1)
		}, 1, 2, 0},
		"an older one is ready": {func(s *sightings) {
			s.expect(key, at(0))
			s.want(key, 2)
			s.see(ready(1), "a", "", at(2))
		}, 0, 0, 1},
		"two at once": {func(s *sightings) {
			s.expect(key, at(0))
			s.want(key, 2)
			s.expect(key, at(1))
			s.want(key, 3)
			s.see(ready(3), "a", "", at(4))
		}, 2, 7, 0},
		"sent again": {func(s *sightings) {
			s.expect(key, at(0))
			s.expect(key, at(3))
			s.want(key, 1)
			s.see(ready(1), "a", "", at(5))
		}, 1, 5, 0},
		"failed": {func(s *sightings) {
			s.expect(key, at(0))
			s.dismiss(key)
		}, 0, 0, 0},
		"given up": {func(s *sightings) {
			s.expect(key, at(0))
			s.want(key, 2)
			s.giveUp(at(3), 5*time.Second)
			s.giveUp(at(7), 5*time.Second)
		}, 1, 7, 1},
		"deleted": {func(s *sightings) {
			s.expect(key, at(0))
			s.want(key, 1)
			s.forget(key, at(3), 5*time.Second)
			s.gone(key)
		}, 0, 0, 0},
		"deleted too late": {func(s *sightings) {
			s.expect(key, at(0))
			s.want(key, 1)
			s.forget(key, at(6), 5*time.Second)
			s.gone(key)
		}, 1, 6, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSightings(newMetrics(), nil)
			test.happens(s)
			count, sum := observed(t, s.metrics)
			if count != test.fulfilled || sum != test.seconds || s.waiting() != test.waiting {
				t.Errorf("%d are fulfilled after %f s together, %d wait", count, sum, s.waiting())
			}
		})
	}
}

func observed(t *testing.T, m *metrics) (uint64, float64) {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == ReadyTime {
			found := family.GetMetric()[0].GetHistogram()
			return found.GetSampleCount(), found.GetSampleSum()
		}
	}
	return 0, 0
}

func TestOwners(t *testing.T) {
	t.Parallel()
	running := map[string]bool{"a": true, "b": true}
	s := newSightings(newMetrics(), func(instance string) bool { return running[instance] })
	s.lives("a", true)
	s.see(ready(1), "", "", time.Now())
	s.see(ready(1), "a", "a/", time.Now())
	s.count()
	for name, test := range map[string]struct{ got, want float64 }{
		"ownerless": {testutil.ToFloat64(s.metrics.ownerless), 0}, "moves": {testutil.ToFloat64(s.metrics.moves), 0},
		"writes": {testutil.ToFloat64(s.metrics.labelWrites), 0}, // the first instance takes a write, and is no move
	} {
		if test.got != test.want {
			t.Errorf("%s: %f", name, test.got)
		}
	}
	s.see(ready(1), "a", "a/true", time.Now())
	s.see(ready(1), "b", "b/", time.Now())
	s.count()
	if testutil.ToFloat64(s.metrics.moves) != 1 || testutil.ToFloat64(s.metrics.labelWrites) != 2 || testutil.ToFloat64(s.metrics.ownerless) != 1 {
		t.Error("it has moved to one that does not live")
	}
	if got := testutil.ToFloat64(s.metrics.owned.WithLabelValues("b")); got != 1 {
		t.Errorf("b has %f", got)
	}
	if got := testutil.ToFloat64(s.metrics.owned.WithLabelValues("a")); got != 0 {
		t.Errorf("a has %f", got)
	}
	for holds, want := range map[bool]float64{true: 0, false: 1} {
		s.lives("b", true)
		running["b"] = holds // it is killed, and its Lease still has its name
		if s.count(); testutil.ToFloat64(s.metrics.ownerless) != want {
			t.Errorf("b runs: %t, and %f are without a live instance", holds, testutil.ToFloat64(s.metrics.ownerless))
		}
	}
}
