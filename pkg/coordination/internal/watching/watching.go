// Package watching keeps a watch going.
//
// It promises that who listens is told at the beginning, and that a watch which has ended is opened again for as
// long as somebody listens.
package watching

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// A watch that breaks at once is opened again after a time that doubles between these.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Keep calls follow again and again until the context ends, and then closes the channel. Follow opens a watch,
// calls signal when it is open and whenever there is something new, and returns when the watch has ended.
func Keep(ctx context.Context, clock clock.Clock, follow func(ctx context.Context, signal func()) error) <-chan struct{} {
	signals := make(chan struct{}, 1)
	signal := func() {
		select {
		case signals <- struct{}{}:
		default: // there is one that nobody has heard yet
		}
	}
	signal()
	go func() {
		defer close(signals)
		pause := firstPause
		for {
			opened := clock.Now()
			err := follow(ctx, signal)
			if ctx.Err() != nil {
				return
			}
			logr.FromContextOrDiscard(ctx).V(1).Info("A watch has ended and is opened again", "reason", err)
			if clock.Since(opened) > lastPause { // it did work
				pause = firstPause
			}
			if !wait(ctx, clock, pause/2+rand.N(pause)) {
				return
			}
			pause = min(2*pause, lastPause)
		}
	}()
	return signals
}

func wait(ctx context.Context, clock clock.Clock, pause time.Duration) bool {
	timer := clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}
