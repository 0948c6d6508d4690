package membership

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrLeaseLost is the cause with which the context of the work ends when the Lease is lost.
var ErrLeaseLost = errors.New("this process has lost its lease")

// Tenure is the time during which this process certainly holds a Lease. It counts from the last renewal.
// Leader election counts from its next attempt to renew, which may be much later.
type Tenure struct {
	deadline time.Duration
	now      func() time.Duration
	// renewed is the time at which the last successful renewal began, or neverRenewed.
	renewed atomic.Int64
	lost    context.Context //nolint:containedctx // its end is the end of the tenure
	lose    context.CancelFunc
}

// neverRenewed is the value of renewed before the first renewal.
const neverRenewed = -1

// started is the start of sinceStart's clock.
var started = time.Now()

// sinceStart is the time since the start of the process, by the monotonic or the wall clock, whichever is
// ahead. The monotonic clock stops while the machine is suspended, and the wall clock may be set back.
func sinceStart() time.Duration {
	return max(time.Since(started), time.Now().Round(0).Sub(started.Round(0)))
}

func newTenure(deadline time.Duration, now func() time.Duration) *Tenure {
	lost, lose := context.WithCancel(context.Background())
	t := &Tenure{deadline: deadline, now: now, lost: lost, lose: lose}
	t.renewed.Store(neverRenewed)
	return t
}

// Lost is closed when the Lease is lost.
func (t *Tenure) Lost() <-chan struct{} { return t.lost.Done() }

// Within returns a context that ends when the Lease is lost. The caller must call stop after its work.
func (t *Tenure) Within(ctx context.Context) (running context.Context, stop func()) {
	running, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(t.lost, func() { cancel(ErrLeaseLost) })
	return running, func() {
		forget()
		cancel(nil)
	}
}

// AfterLoss calls a function in its own goroutine when the Lease is lost.
func (t *Tenure) AfterLoss(call func()) { context.AfterFunc(t.lost, call) }

// markRenewed records a successful renewal with the time at which it began.
func (t *Tenure) markRenewed(began time.Duration) { t.renewed.Store(int64(began)) }

// EverHeld reports whether this process has ever held the Lease.
func (t *Tenure) EverHeld() bool { return t.renewed.Load() != neverRenewed }

// Age is the time since the last successful renewal began, or zero without one.
func (t *Tenure) Age() time.Duration {
	renewed := t.renewed.Load()
	if renewed == neverRenewed {
		return 0
	}
	return t.now() - time.Duration(renewed)
}

// Valid reports whether this process certainly holds the Lease right now. It detects a pause of the
// process at once, before the Lease is declared lost.
func (t *Tenure) Valid() bool { return t.lost.Err() == nil && t.EverHeld() && t.Age() < t.deadline }

// expire declares the Lease lost when it has not been renewed for as long as the deadline.
func (t *Tenure) expire(ctx context.Context) {
	for {
		remaining := t.deadline - t.Age()
		if remaining <= 0 {
			t.lose()
			return
		}
		timer := time.NewTimer(remaining)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
