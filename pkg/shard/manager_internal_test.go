package shard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// TestManagerReturnsWhyItEnded has a manager end without an error of its own, with one, or not at all.
func TestManagerReturnsWhyItEnded(t *testing.T) {
	refused := errors.New("an ordinary controller watches a sharded kind")
	for name, test := range map[string]struct {
		cause   error
		end     func(chan<- error)
		timeout time.Duration
		waits   time.Duration
	}{
		"lost, it ends gracefully":              {ErrLeaseLost, func(ended chan<- error) { ended <- nil }, time.Minute, 0},
		"lost, it ends with that error":         {ErrLeaseLost, func(ended chan<- error) { ended <- ErrLeaseLost }, time.Minute, 0},
		"lost, a reconciler hangs":              {ErrLeaseLost, func(chan<- error) {}, time.Minute, 5 * time.Second},
		"refused, it ends gracefully":           {refused, func(ended chan<- error) { ended <- nil }, time.Minute, 0},
		"refused, and a reconciler hangs":       {refused, func(chan<- error) {}, time.Minute, time.Minute + shutdownMargin},
		"failed with the loss of another lease": {fmt.Errorf("leading: %w", ErrLeaseLost), func(chan<- error) {}, time.Minute, time.Minute + shutdownMargin},
		"failed, and stopping has no limit":     {refused, func(chan<- error) {}, -1, 30*time.Second + shutdownMargin},
		"failed, and stopping has no time":      {refused, func(chan<- error) {}, 0, shutdownMargin},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Shard{options: Options{Mode: ModeShard, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second}, shutdownTimeout: test.timeout}
				s.ended, s.end = context.WithCancelCause(t.Context())
				s.end(test.cause)
				ended, stopped := make(chan error, 1), false
				test.end(ended)
				began := time.Now()
				if err := (&Manager{shard: s}).shutDown(ended, func() { stopped = true }); !errors.Is(err, test.cause) {
					t.Errorf("got %v, want %v", err, test.cause)
				}
				if waited := time.Since(began); waited != test.waits || !stopped {
					t.Errorf("it waited for %s, want %s; stopped: %t", waited, test.waits, stopped)
				}
			})
		})
	}
}

// TestFailedRunnableIsNotALostLease has a runnable fail with the loss of another Lease, such as that of a Leader which it
// runs. The shard still holds its own, so it must end the manager with that error.
func TestFailedRunnableIsNotALostLease(t *testing.T) {
	failure := fmt.Errorf("leading: %w", ErrLeaseLost)
	for name, test := range map[string]struct {
		held  error // with which the shard's own Lease ends
		fails error // with which the runnable ends
		want  error
	}{
		"the runnable's Lease": {nil, failure, failure},
		"the shard's Lease":    {ErrLeaseLost, nil, nil}, // Lease.Run returns it
	} {
		t.Run(name, func(t *testing.T) {
			s := &Shard{owned: ownership.New(ownership.Options{Ring: "ring", Shard: "a", ConcurrentReleases: 1})}
			s.ended, s.end = context.WithCancelCause(t.Context())
			leaseCtx, lose := context.WithCancelCause(t.Context())
			defer lose(nil)
			if err := s.Add(manager.RunnableFunc(func(ctx context.Context) error {
				if test.fails == nil {
					lose(test.held)
					<-ctx.Done()
				}
				return test.fails
			})); err != nil {
				t.Fatal(err)
			}
			if err := s.work(t.Context(), leaseCtx, nil); !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if got := context.Cause(s.ended); !errors.Is(got, test.want) {
				t.Errorf("the manager ends with %v, want %v", got, test.want)
			}
		})
	}
}
