package membership

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Candidate is this process in an election. It notes for how long the leadership is certain: leader election itself lets a
// leader that was paused go on for as long as its renew deadline before it ends it.
type Candidate struct {
	resourcelock.Interface
	*Tenure
	Times
	// working is how many reconciles and runnables of the leader have not ended.
	working atomic.Int64

	begin sync.Once
	ended chan struct{} // closed when the leadership was given up after the work had ended
	end   sync.Once
}

// NewCandidate takes part in an election with a lock.
func NewCandidate(times Times, lock resourcelock.Interface) *Candidate {
	times = times.WithDefaults()
	return &Candidate{Interface: lock, Times: times, Tenure: newTenure(times.RenewDeadline, sinceBoot), ended: make(chan struct{})}
}

// Work notes that work of the leader begins, and returns a context that ends with the leadership. The Lease is not released
// before done has been called.
func (c *Candidate) Work(ctx context.Context) (leading context.Context, done func()) {
	c.working.Add(1)
	leading, stop := c.Within(ctx)
	return leading, func() {
		stop()
		c.working.Add(-1)
	}
}

// Spare is how long the Lease still lasts after it is lost.
func (c *Candidate) Spare() time.Duration { return c.LeaseDuration - c.RenewDeadline }

// Get implements resourcelock.Interface.
func (c *Candidate) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := c.get(ctx)
	if err == nil && c.Held() && record.HolderIdentity != c.Identity() {
		// Another process leads. Leader election would try to get the Lease back and, when it ends, release it: it only
		// looks at the holder that it saw last, and that was this process.
		c.lose()
		return nil, nil, ErrLost
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
	if record.HolderIdentity != c.Identity() && (!c.Valid() || c.working.Load() > 0) {
		// Leader election releases a Lease also when it could not renew it, and controller-runtime when its shutdown
		// timeout is over. As long as anything may be at work the Lease has to expire.
		return fmt.Errorf("the lease %s is not released before all work has ended", c.Describe())
	}
	began := c.now()
	limited, cancel := context.WithTimeout(ctx, c.RequestTimeout())
	defer cancel()
	if err := write(limited, record); err != nil {
		return err
	}
	if record.HolderIdentity != c.Identity() { // it is given up
		c.end.Do(func() { close(c.ended) })
		return nil
	}
	c.renew(began)
	c.begin.Do(func() {
		counting, stop := context.WithCancel(context.WithoutCancel(ctx))
		go func() {
			defer stop()
			select {
			case <-c.ended:
			case <-c.Lost():
			}
		}()
		go c.expire(counting)
	})
	return nil
}

// Run waits until this process leads, calls work for as long as it does, and gives the leadership up after work has
// returned. It is for processes without controller-runtime.
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
		return fmt.Errorf("preparing to lead: %w", err)
	}
	// The leadership is kept until the work has ended, not until the work is asked to end.
	election, leave := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(election)
	}()
	err = c.lead(ctx, started, work)
	leave()
	<-ended
	if err == nil {
		c.release(context.WithoutCancel(ctx))
	}
	return err
}

// lead works while this process leads.
func (c *Candidate) lead(ctx context.Context, started <-chan struct{}, work func(context.Context)) error {
	select {
	case <-started:
	case <-ctx.Done():
		return nil
	}
	if !c.Valid() { // it was paused just now
		return ErrLost
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
		stop(ErrLost)
		<-done
		return ErrLost
	case <-done:
		return nil
	}
}

// release gives the leadership up if this process still has it. If that fails, the Lease expires.
func (c *Candidate) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.RenewDeadline)
	defer cancel()
	for range attempts { // the last renewal may still be under way
		record, _, err := c.get(ctx)
		if err != nil || record.HolderIdentity != c.Identity() {
			return
		}
		now := metav1.Now()
		err = c.Interface.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
		if !apierrors.IsConflict(err) {
			return
		}
	}
}
