package sharder

import (
	"runtime"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestRingQueueOfReplicaThatDoesNotLead does not accumulate events.
func TestRingQueueOfReplicaThatDoesNotLead(t *testing.T) {
	q := &ringQueue{}
	before := runtime.NumGoroutine()
	for range 5000 {
		q.add("ring")
	}
	if leaked := runtime.NumGoroutine() - before; leaked > 10 {
		t.Errorf("%d goroutines are left", leaked)
	}
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](), workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: "rings"})
	defer queue.ShutDown()
	if err := q.start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		q.add("ring")
	}
	if queue.Len() != 1 {
		t.Errorf("%d requests wait for one ring", queue.Len())
	}
}
