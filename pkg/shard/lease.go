package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// The times of a Lease, as in leader election.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

var (
	// ErrNameTaken is returned when another live process is this shard already.
	ErrNameTaken = errors.New("another live process has the name of this shard")
	// ErrLost is returned when the Lease of the shard, or of the leader, could not be renewed in time, or
	// was taken over. What the instance did must have ended by then, and the process should end too.
	ErrLost = errors.New("the lease of this instance is lost")
)

// Lease is a shard's membership of a ring.
type Lease struct {
	// Client reads and writes Leases.
	Client coordinationv1client.LeasesGetter
	// Ring is the name of the ring to join.
	Ring string
	// Namespace and Name are where the Lease is. The name is the shard's: the pod's name, usually.
	Namespace, Name string
	// Duration, RenewDeadline and RetryPeriod have the defaults of leader election.
	Duration, RenewDeadline, RetryPeriod time.Duration

	// resources are what the instance works on, and namespaces those that it selects, for people.
	resources, namespaces string
}

// Validate tells what is wrong with the names, before anything is written.
func (l *Lease) Validate() error {
	var errs []error
	for what, value := range map[string]string{"ring": l.Ring, "shard": l.Name} {
		if len(value) > shardingv1alpha1.MaxNameLength {
			errs = append(errs, fmt.Errorf("the name of the %s, %q, is longer than %d characters: it becomes part of a label, so choose a shorter one",
				what, value, shardingv1alpha1.MaxNameLength))
			continue
		}
		for _, problem := range validation.IsDNS1123Subdomain(value) {
			errs = append(errs, fmt.Errorf("%q cannot be the name of a %s: %s", value, what, problem))
		}
	}
	if l.Namespace == "" {
		errs = append(errs, errors.New("the namespace of the shard's lease is not known: set it, or run in a pod"))
	}
	return errors.Join(append(errs, l.validateTimes())...)
}

// validateTimes tells what is wrong with the times: they must leave a shard that cannot renew enough time
// to end before its Lease does.
func (l *Lease) validateTimes() error {
	times := newLock(*l).Lease
	switch {
	case times.Duration < time.Second || times.Duration%time.Second != 0:
		return fmt.Errorf("the lease duration, %s, must be a number of seconds", times.Duration)
	case times.RenewDeadline <= 0 || times.RetryPeriod <= 0:
		return errors.New("the renew deadline and the retry period must be longer than nothing")
	case times.Duration <= times.RenewDeadline:
		return fmt.Errorf("the lease duration, %s, must be longer than the renew deadline, %s", times.Duration, times.RenewDeadline)
	case float64(times.RenewDeadline) <= leaderelection.JitterFactor*float64(times.RetryPeriod):
		return fmt.Errorf("the renew deadline, %s, must be longer than %g times the retry period, %s", times.RenewDeadline, leaderelection.JitterFactor, times.RetryPeriod)
	}
	return nil
}

// Run joins the ring, calls work for as long as the Lease is held, and leaves the ring after work has
// returned. Work must return soon after its context has ended, which it does when ctx ends or the
// Lease is lost.
//
// It returns nil after a good end, ErrNameTaken or ErrLost.
func (l *Lease) Run(ctx context.Context, work func(context.Context)) error {
	return l.run(ctx, func(held context.Context, _ *lock) {
		working, stop := context.WithCancelCause(held)
		defer context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })()
		work(working)
	})
}

// run is Run for work that has more to do when it is asked to end: its context lives for as long as
// the Lease is held, and it ends by itself some time after ctx has.
func (l *Lease) run(ctx context.Context, work func(held context.Context, lock *lock)) error {
	if err := l.Validate(); err != nil {
		return err
	}
	lock := newLock(*l)
	if err := lock.claim(ctx); err != nil {
		if ctx.Err() != nil { // it was told to end meanwhile
			return nil
		}
		return err
	}
	// The Lease is kept until the work has ended, not until the work is asked to end.
	election, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: lock.Duration,
		RenewDeadline: lock.RenewDeadline,
		RetryPeriod:   lock.RetryPeriod,
		Name:          l.Name,
		// It would release the Lease before the work has ended, when it could not renew it; and one that
		// is somebody else's by then.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { lock.start() },
			OnStoppedLeading: lock.lose,
		},
	})
	if err != nil {
		return fmt.Errorf("preparing to keep the lease: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(election)
	}()
	err = lock.keep(ctx, work)
	leave()
	<-ended
	if err == nil {
		lock.release(context.WithoutCancel(ctx))
	}
	return err
}

// keep works while the Lease is held.
func (l *lock) keep(ctx context.Context, work func(context.Context, *lock)) error {
	select {
	case <-l.started:
	case <-ctx.Done():
		return nil
	}
	held, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	go l.expire(held)
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(held, l)
	}()
	select {
	case <-l.lost:
		stop(ErrLost)
		<-done
		return ErrLost
	case <-done:
		return nil
	}
}
