package keepalive_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/keepalive"
)

const duration = 15 * time.Second

var errUnavailable = errors.New("no response")

// lostAfter starts a keeper and returns when the session was lost. Time passes only by waiting.
func lostAfter(t *testing.T, renew func(ctx context.Context, since time.Duration) error) (lost time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		keeper := keepalive.Start(t.Context(), start, keepalive.Options{
			Clock: clock.RealClock{}, Duration: duration,
			Renew: func(ctx context.Context) error { return renew(ctx, time.Since(start)) },
		})
		<-keeper.Lost()
		lost = time.Since(start)
		if keeper.Alive() {
			t.Error("it is alive although it is lost")
		}
		keeper.Stop()
	})
	return lost
}

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestSessionIsLostWithoutRenewals(t *testing.T) {
	for name, test := range map[string]struct {
		renew func(ctx context.Context, since time.Duration) error
		want  time.Duration
	}{
		"no response":                     {func(ctx context.Context, _ time.Duration) error { return hang(ctx) }, 12 * time.Second},
		"an error each time":              {func(context.Context, time.Duration) error { return errUnavailable }, 12 * time.Second},
		"the store has ended the session": {func(context.Context, time.Duration) error { return keepalive.ErrSessionEnded }, 5 * time.Second},
		"answers for a minute": {func(_ context.Context, since time.Duration) error {
			if since > time.Minute {
				return errUnavailable
			}
			return nil
		}, time.Minute + 12*time.Second},
		"counted from when the renewal was sent": {func(ctx context.Context, since time.Duration) error {
			if since > time.Minute {
				return hang(ctx)
			}
			time.Sleep(4 * time.Second) // the store may have renewed it at once
			return nil
		}, time.Minute + 12*time.Second},
		"one that hangs is tried again in time": {func() func(context.Context, time.Duration) error {
			calls := 0
			return func(ctx context.Context, since time.Duration) error {
				calls++
				if since > time.Minute {
					return keepalive.ErrSessionEnded
				}
				if calls%2 == 1 {
					return hang(ctx)
				}
				return nil
			}
		}(), 63 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got := lostAfter(t, test.renew)
			if short := got - test.want; short < -5*time.Second || short > 3*time.Second {
				t.Errorf("it was lost after %s instead of about %s", got, test.want)
			}
		})
	}
}

// TestSessionIsLostBeforeItExpires is exact where it matters: a session that was renewed last by what was sent at a time is lost when
// four fifths of its duration have passed since, whenever the answer came.
func TestSessionIsLostBeforeItExpires(t *testing.T) {
	var sent time.Duration
	got := lostAfter(t, func(ctx context.Context, since time.Duration) error {
		if since > time.Minute {
			return hang(ctx)
		}
		sent = since
		time.Sleep(3 * time.Second)
		return nil
	})
	if want := sent + duration*4/5; got != want {
		t.Errorf("it was lost after %s instead of %s", got, want)
	}
}

// TestPausedProcessFindsSessionLost pauses a process for longer than its session. When it resumes, each channel must show that the session is lost, also the
// late response to a renewal.
func TestPausedProcessFindsSessionLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := &steppedClock{}
		answer := make(chan struct{})
		keeper := keepalive.Start(t.Context(), now.Now(), keepalive.Options{
			Clock: now, Duration: duration,
			Renew: func(context.Context) error {
				<-answer
				return nil
			},
		})
		time.Sleep(duration / 2)
		synctest.Wait()
		if !keeper.Alive() {
			t.Fatal("it is lost from the beginning")
		}
		now.step(time.Hour) // no timer has fired yet
		if keeper.Alive() {
			t.Error("it is held after an hour")
		}
		close(answer)
		synctest.Wait()
		select {
		case <-keeper.Lost():
		default:
			t.Error("an old answer has kept it")
		}
		keeper.Stop()
	})
}

// steppedClock is a clock that can jump, as for a process that was paused.
type steppedClock struct {
	clock.RealClock
	stepped time.Duration
}

func (c *steppedClock) step(by time.Duration)                { c.stepped += by }
func (c *steppedClock) Now() time.Time                       { return time.Now().Add(c.stepped) }
func (c *steppedClock) Since(moment time.Time) time.Duration { return c.Now().Sub(moment) }

func TestStopWaitsForRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		keeper := keepalive.Start(t.Context(), time.Now(), keepalive.Options{
			Clock: clock.RealClock{}, Duration: duration,
			Renew: func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				ended = true
				return nil
			},
		})
		time.Sleep(duration / 2)
		keeper.Stop()
		if !ended {
			t.Error("a renewal is under way after the end")
		}
		select {
		case <-keeper.Lost():
		default:
			t.Error("it is not lost after the end")
		}
		keeper.Stop() // idempotent
	})
}
