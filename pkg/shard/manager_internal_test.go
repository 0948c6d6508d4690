package shard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestManagerReturnsWhyItEnded has a manager end without an error of its own, with one, or not at all.
func TestManagerReturnsWhyItEnded(t *testing.T) {
	refused := errors.New("an ordinary controller watches a sharded kind")
	for name, test := range map[string]struct {
		cause error
		end   func(chan<- error)
		waits time.Duration
	}{
		"lost, it ends gracefully":        {ErrLost, func(ended chan<- error) { ended <- nil }, 0},
		"lost, it ends with that error":   {ErrLost, func(ended chan<- error) { ended <- ErrLost }, 0},
		"lost, a reconciler hangs":        {ErrLost, func(chan<- error) {}, 5 * time.Second},
		"refused, it ends gracefully":     {refused, func(ended chan<- error) { ended <- nil }, 0},
		"refused, and a reconciler hangs": {refused, func(chan<- error) {}, time.Minute + shutdownMargin},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Shard{options: Options{Mode: ModeShard, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second}, graceful: time.Minute}
				s.ended, s.end = context.WithCancelCause(t.Context())
				s.end(test.cause)
				ended, stopped := make(chan error, 1), false
				test.end(ended)
				began := time.Now()
				if err := (&Manager{shard: s}).ended(ended, func() { stopped = true }); !errors.Is(err, test.cause) {
					t.Errorf("got %v, want %v", err, test.cause)
				}
				if waited := time.Since(began); waited != test.waits || !stopped {
					t.Errorf("it waited for %s, want %s; stopped: %t", waited, test.waits, stopped)
				}
			})
		})
	}
}
