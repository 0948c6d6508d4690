package sharder

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// listRecorder records the lists of an unassignedQueue.
type listRecorder struct {
	mu    sync.Mutex
	calls []string
	hang  map[string]chan struct{}
}

func (f *listRecorder) list(ctx context.Context, ring string, resource schema.GroupResource, namespaces ...string) error {
	slices.Sort(namespaces)
	f.mu.Lock()
	f.calls = append(f.calls, strings.Join(append([]string{ring + "/" + resource.String()}, namespaces...), " "))
	hang := f.hang[ring]
	f.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
		}
	}
	return nil
}

func (f *listRecorder) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	slices.Sort(calls)
	return calls
}

var (
	websites = schema.GroupResource{Group: "example.com", Resource: "websites"}
	jobs     = schema.GroupResource{Group: "example.com", Resource: "jobs"}
)

// runQueue runs an unassignedQueue in fake time.
func runQueue(t *testing.T, f *listRecorder, test func(*unassignedQueue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := newUnassignedQueue(clock.RealClock{}, f.list)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- q.Start(ctx) }()
		test(q)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

func TestUnassignedQueueListsOnlyAffectedNamespaces(t *testing.T) {
	f := &listRecorder{}
	runQueue(t, f, func(q *unassignedQueue) {
		q.add("one", websites, "x")
		q.add("one", websites, "y")
		q.add("two", jobs, "")
		time.Sleep(assignAfter + time.Millisecond)
		synctest.Wait()
		expect(t, f.take(), "one/websites.example.com x y", "two/jobs.example.com")
		time.Sleep(time.Hour)
		synctest.Wait()
		expect(t, f.take())
	})
}

// TestUnassignedQueueBoundsLists has objects created all the time. The lists become fewer, and are soon those of all namespaces.
func TestUnassignedQueueBoundsLists(t *testing.T) {
	f := &listRecorder{}
	runQueue(t, f, func(q *unassignedQueue) {
		for i := range 60 * 100 {
			q.add("one", websites, string(rune('a'+i%26)))
			time.Sleep(10 * time.Millisecond)
		}
		calls := f.take()
		if len(calls) == 0 || len(calls) > 35 {
			t.Errorf("%d lists in a minute", len(calls))
		}
		if !slices.Contains(calls, "one/websites.example.com") {
			t.Errorf("namespaces are listed one by one: %q", calls)
		}
		t.Log("After a quiet time, the next object is found at once")
		time.Sleep(time.Minute)
		f.take()
		q.add("one", websites, "x")
		time.Sleep(assignAfter + time.Millisecond)
		synctest.Wait()
		expect(t, f.take(), "one/websites.example.com x")
	})
}

// TestUnassignedQueueDoesNotDelayOtherRings has the lists of a ring hang.
func TestUnassignedQueueDoesNotDelayOtherRings(t *testing.T) {
	f := &listRecorder{}
	runQueue(t, f, func(q *unassignedQueue) {
		f.hang = map[string]chan struct{}{"one": make(chan struct{})}
		q.add("one", websites, "x")
		time.Sleep(time.Second)
		q.add("one", jobs, "x")
		q.add("two", websites, "x")
		time.Sleep(time.Second)
		synctest.Wait()
		expect(t, f.take(), "one/websites.example.com x", "two/websites.example.com x")
		close(f.hang["one"])
		time.Sleep(5 * time.Second)
		synctest.Wait()
		expect(t, f.take(), "one/jobs.example.com x")
	})
}
