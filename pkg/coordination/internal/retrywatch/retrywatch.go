// Package retrywatch opens a watch again when it ends.
//
// It guarantees a signal at the beginning, and that the watch is opened again until the context ends.
package retrywatch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// minBackoff and maxBackoff limit the backoff after a watch that ends early.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// Run calls watch repeatedly until the context ends, and then closes the channel. Watch opens a watch, calls signal when it is open and
// after each change, and returns when the watch has ended.
func Run(ctx context.Context, clock clock.Clock, watch func(ctx context.Context, signal func()) error) <-chan struct{} {
	signals := make(chan struct{}, 1)
	signal := func() {
		select {
		case signals <- struct{}{}:
		default: // a signal is pending
		}
	}
	signal()
	go func() {
		defer close(signals)
		backoff := minBackoff
		for {
			opened := clock.Now()
			err := watch(ctx, signal)
			if ctx.Err() != nil {
				return
			}
			logr.FromContextOrDiscard(ctx).V(1).Info("Watch ended, opening it again", "reason", err)
			if clock.Since(opened) > maxBackoff { // it worked
				backoff = minBackoff
			}
			if !wait(ctx, clock, backoff/2+rand.N(backoff)) {
				return
			}
			backoff = min(2*backoff, maxBackoff)
		}
	}()
	return signals
}

func wait(ctx context.Context, clock clock.Clock, delay time.Duration) bool {
	timer := clock.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}
