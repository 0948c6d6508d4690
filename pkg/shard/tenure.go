package shard

import (
	"context"
	"sync/atomic"
	"time"
)

// tenure is the time for which this process holds a Lease for sure. It is counted from the last renewal:
// leader election begins to count only when it tries, which may be long after that.
type tenure struct {
	deadline time.Duration
	// renewed is when the last renewal that succeeded was begun. It is compared by the monotonic clock.
	renewed atomic.Pointer[time.Time]
	// lost is closed when the Lease is lost.
	lost <-chan struct{}
	over context.Context //nolint:containedctx // it is the tenure itself
	lose context.CancelFunc
}

func newTenure(deadline time.Duration) *tenure {
	over, lose := context.WithCancel(context.Background())
	return &tenure{deadline: deadline, over: over, lost: over.Done(), lose: lose}
}

// within returns a context that ends when the Lease is lost. Stop has to be called when it is needed no
// more.
func (t *tenure) within(ctx context.Context) (running context.Context, stop func()) {
	running, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(t.over, func() { cancel(ErrLost) })
	return running, func() {
		forget()
		cancel(nil)
	}
}

func (t *tenure) renew(began time.Time) { t.renewed.Store(&began) }

// valid tells whether the Lease is held for sure at this moment. A process that was paused may find out
// here before anything else tells it.
func (t *tenure) valid() bool {
	select {
	case <-t.lost:
		return false
	default:
	}
	renewed := t.renewed.Load()
	return renewed != nil && time.Since(*renewed) < t.deadline
}

// expire gives the Lease up for lost when it has not been renewed for as long as the deadline.
func (t *tenure) expire(ctx context.Context) {
	for {
		left := t.deadline - time.Since(*t.renewed.Load())
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
