package membership

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrLost is the cause with which the context of the work ends when its Lease is lost.
var ErrLost = errors.New("the lease of this instance is lost")

// Tenure is the time for which this process certainly holds a Lease. It is counted from the last renewal: leader election
// begins to count only when it tries to renew, which may be long after that.
type Tenure struct {
	deadline time.Duration
	now      func() time.Duration
	// renewed is when the last renewal that succeeded began, or never.
	renewed atomic.Int64
	over    context.Context //nolint:containedctx // it is the tenure itself
	lose    context.CancelFunc
}

// never is the time of a renewal that has not happened.
const never = -1

// started is when this process began to count, for sinceStart.
var started = time.Now()

// sinceStart is the time since the start of the process, by whichever of Go's two clocks is ahead: the monotonic one stops
// while the machine is suspended, and the other one may be set back.
func sinceStart() time.Duration {
	return max(time.Since(started), time.Now().Round(0).Sub(started.Round(0)))
}

func newTenure(deadline time.Duration, now func() time.Duration) *Tenure {
	over, lose := context.WithCancel(context.Background())
	t := &Tenure{deadline: deadline, now: now, over: over, lose: lose}
	t.renewed.Store(never)
	return t
}

// Lost is closed when the Lease is lost.
func (t *Tenure) Lost() <-chan struct{} { return t.over.Done() }

// Within returns a context that ends when the Lease is lost. The caller must call stop when it has ended its work.
func (t *Tenure) Within(ctx context.Context) (running context.Context, stop func()) {
	running, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(t.over, func() { cancel(ErrLost) })
	return running, func() {
		forget()
		cancel(nil)
	}
}

// AfterLoss calls a function in its own goroutine when the Lease is lost.
func (t *Tenure) AfterLoss(call func()) { context.AfterFunc(t.over, call) }

// renew notes a renewal that began at a time and succeeded.
func (t *Tenure) renew(began time.Duration) { t.renewed.Store(int64(began)) }

// Held tells whether the Lease has ever been held.
func (t *Tenure) Held() bool { return t.renewed.Load() != never }

// Age is the time since the last renewal that succeeded began, or zero without one.
func (t *Tenure) Age() time.Duration {
	renewed := t.renewed.Load()
	if renewed == never {
		return 0
	}
	return t.now() - time.Duration(renewed)
}

// Valid tells whether the Lease is certainly held at this moment. A process that was paused may learn of it here before
// anything else tells it.
func (t *Tenure) Valid() bool { return t.over.Err() == nil && t.Held() && t.Age() < t.deadline }

// expire declares the Lease lost once it has not been renewed for as long as the deadline.
func (t *Tenure) expire(ctx context.Context) {
	for {
		left := t.deadline - t.Age()
		if left <= 0 {
			t.lose()
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
