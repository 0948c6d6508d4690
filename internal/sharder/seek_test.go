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

// found records what a seeker was made to list.
type found struct {
	mu    sync.Mutex
	calls []string
	hang  map[string]chan struct{}
}

func (f *found) find(ctx context.Context, ring string, resource schema.GroupResource, namespaces ...string) error {
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

func (f *found) take() []string {
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

// seeking runs a seeker in fake time.
func seeking(t *testing.T, f *found, test func(*seeker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSeeker(clock.RealClock{}, f.find)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Start(ctx) }()
		test(s)
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

func TestSeekListsOnlyWhatIsConcerned(t *testing.T) {
	f := &found{}
	seeking(t, f, func(s *seeker) {
		s.seek("one", websites, "x")
		s.seek("one", websites, "y")
		s.seek("two", jobs, "")
		time.Sleep(seekAfter + time.Millisecond)
		synctest.Wait()
		expect(t, f.take(), "one/websites.example.com x y", "two/jobs.example.com")
		time.Sleep(time.Hour)
		synctest.Wait()
		expect(t, f.take())
	})
}

// TestSeekIsBounded has objects created all the time. The lists become fewer, and are soon those of all namespaces.
func TestSeekIsBounded(t *testing.T) {
	f := &found{}
	seeking(t, f, func(s *seeker) {
		for i := range 60 * 100 {
			s.seek("one", websites, string(rune('a'+i%26)))
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
		s.seek("one", websites, "x")
		time.Sleep(seekAfter + time.Millisecond)
		synctest.Wait()
		expect(t, f.take(), "one/websites.example.com x")
	})
}

// TestSeekInOneRingDoesNotHoldUpAnother has the lists of a ring hang.
func TestSeekInOneRingDoesNotHoldUpAnother(t *testing.T) {
	f := &found{}
	seeking(t, f, func(s *seeker) {
		f.hang = map[string]chan struct{}{"one": make(chan struct{})}
		s.seek("one", websites, "x")
		time.Sleep(time.Second)
		s.seek("one", jobs, "x")
		s.seek("two", websites, "x")
		time.Sleep(time.Second)
		synctest.Wait()
		expect(t, f.take(), "one/websites.example.com x", "two/websites.example.com x")
		close(f.hang["one"])
		time.Sleep(5 * time.Second)
		synctest.Wait()
		expect(t, f.take(), "one/jobs.example.com x")
	})
}
