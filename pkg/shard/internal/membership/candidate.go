package membership

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// Candidate is this process in an election. Its Tenure is the time during which it certainly leads:
// leader election alone would let a leader that was paused continue until its renew deadline.
type Candidate struct {
	resourcelock.Interface
	*Tenure
	Times
	// activeWork is the number of reconciles and runnables of the leader that have not returned.
	activeWork atomic.Int64

	startExpiry   sync.Once
	released      chan struct{} // closed when the Lease is released after the work has ended
	closeReleased sync.Once
}

// NewCandidate returns a candidate that can acquire a lock.
func NewCandidate(times Times, lock resourcelock.Interface) *Candidate {
	times = times.WithDefaults()
	return &Candidate{Interface: lock, Times: times, Tenure: newTenure(times.RenewDeadline, sinceBoot), released: make(chan struct{})}
}

// Work starts work of the leader and returns a context that ends with the leadership. The Lease is not
// released before done is called.
func (c *Candidate) Work(ctx context.Context) (leading context.Context, done func()) {
	c.activeWork.Add(1)
	leading, stop := c.Within(ctx)
	return leading, func() {
		stop()
		c.activeWork.Add(-1)
	}
}

// RemainingAfterLoss is the time between the loss of the Lease and its expiry.
func (c *Candidate) RemainingAfterLoss() time.Duration { return c.LeaseDuration - c.RenewDeadline }

// Get implements resourcelock.Interface.
func (c *Candidate) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := c.get(ctx)
	if err == nil && c.EverHeld() && record.HolderIdentity != c.Identity() {
		// Another process leads. Leader election would try to acquire the Lease again and release it on
		// exit, because it only checks the last holder that it observed, and that was this process.
		c.lose()
		return nil, nil, ErrLeaseLost
	}
	return record, raw, err
}

func (c *Candidate) get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.RequestTimeout())
	defer cancel()
	return c.Interface.Get(ctx)
}

// Create implements resourcelock.Interface.
func (c *Candidate) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return c.write(ctx, record, c.Interface.Create)
}

// Update implements resourcelock.Interface.
func (c *Candidate) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return c.write(ctx, record, c.Interface.Update)
}

func (c *Candidate) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	if record.HolderIdentity != c.Identity() && (!c.Valid() || c.activeWork.Load() > 0) {
		// Leader election also releases a Lease that it failed to renew, and controller-runtime releases
		// it after its shutdown timeout. While work may still be running, the Lease has to expire instead.
		return fmt.Errorf("keeping the lease %s until it expires: not all work of this process has ended", c.Describe())
	}
	if c.lost.Err() != nil && record.HolderIdentity == c.Identity() {
		return ErrLeaseLost // leader election would renew it without another read
	}
	began := c.now()
	limited, cancel := context.WithTimeout(ctx, c.RequestTimeout())
	defer cancel()
	if err := write(limited, record); err != nil {
		return err
	}
	if record.HolderIdentity != c.Identity() { // the Lease is released
		c.closeReleased.Do(func() { close(c.released) })
		return nil
	}
	c.markRenewed(began)
	c.startExpiry.Do(func() {
		untilReleased, stop := context.WithCancel(context.WithoutCancel(ctx))
		go func() {
			defer stop()
			select {
			case <-c.released:
			case <-c.Lost():
			}
		}()
		go c.expire(untilReleased)
	})
	return nil
}

// Run waits until this process leads, calls work, and releases the Lease after work has returned. It is
// for processes without controller-runtime.
func (c *Candidate) Run(ctx context.Context, name string, work func(context.Context)) error {
	started := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: c, Name: name, LeaseDuration: c.LeaseDuration, RenewDeadline: c.RenewDeadline, RetryPeriod: c.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(started) },
			OnStoppedLeading: c.lose,
		},
	})
	if err != nil {
		return fmt.Errorf("configuring the leader election: %w", err)
	}
	// The process leads until the work has returned, not until the work is told to stop.
	electionCtx, stopElection := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(electionCtx)
	}()
	err = c.workWhileLeading(ctx, started, work)
	stopElection()
	<-ended
	if err == nil {
		c.release(context.WithoutCancel(ctx))
	}
	return err
}

// workWhileLeading waits until this process leads, and calls work with a context that ends with the
// leadership.
func (c *Candidate) workWhileLeading(ctx context.Context, started <-chan struct{}, work func(context.Context)) error {
	select {
	case <-started:
	case <-ctx.Done():
		return nil
	}
	if !c.Valid() { // the process was paused before this line
		return ErrLeaseLost
	}
	leading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(leading)
	}()
	select {
	case <-c.Lost():
		stop(ErrLeaseLost)
		<-done
		return ErrLeaseLost
	case <-done:
		return nil
	}
}

// release releases the Lease if this process still holds it. If that fails, the Lease expires.
func (c *Candidate) release(ctx context.Context) {
	err := c.retryRelease(ctx, func(ctx context.Context) error { // the last renewal may still be in flight
		record, _, err := c.get(ctx)
		if err != nil || record.HolderIdentity != c.Identity() {
			return err
		}
		now := metav1.Now()
		return c.Interface.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to release the election lease, so it has to expire", "lease", c.Describe())
	}
}
