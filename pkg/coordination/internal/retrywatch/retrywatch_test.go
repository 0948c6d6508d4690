package retrywatch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/retrywatch"
)

func TestRunReopensWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		opened := 0
		signals := retrywatch.Run(ctx, clock.RealClock{}, func(ctx context.Context, signal func()) error {
			opened++
			if opened == 1 {
				return errors.New("broken")
			}
			signal()
			signal() // nobody has heard the first
			<-ctx.Done()
			return ctx.Err()
		})
		<-signals // this is the one at the beginning
		time.Sleep(time.Minute)
		<-signals
		if opened != 2 || len(signals) != 0 {
			t.Errorf("it was opened %d times, and %d signals are left", opened, len(signals))
		}
		stop()
		if _, open := <-signals; open {
			t.Error("there is a signal after the end")
		}
	})
}

// TestKeepPauses counts how often a watch is opened that breaks at once.
func TestKeepPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		opened := 0
		for range retrywatch.Run(ctx, clock.RealClock{}, func(context.Context, func()) error {
			opened++
			return errors.New("broken")
		}) {
		}
		if opened < 8 || opened > 40 {
			t.Errorf("it was opened %d times in a minute", opened)
		}
	})
}
