package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// ErrNameTaken is returned when another live process has the name of this shard.
var ErrNameTaken = errors.New("another live process has the name of this shard")

// Times are the times of leader election. Zero values mean its defaults.
type Times struct {
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// WithDefaults returns the times with defaults for zero values.
func (t Times) WithDefaults() Times {
	return Times{
		LeaseDuration: cmp.Or(t.LeaseDuration, DefaultLeaseDuration),
		RenewDeadline: cmp.Or(t.RenewDeadline, DefaultRenewDeadline),
		RetryPeriod:   cmp.Or(t.RetryPeriod, DefaultRetryPeriod),
	}
}

// Validate returns an error if a shard that cannot renew its Lease would not have enough time to stop
// before the Lease expires.
func (t Times) Validate() error {
	t = t.WithDefaults()
	switch {
	case t.LeaseDuration < time.Second || t.LeaseDuration%time.Second != 0:
		return fmt.Errorf("the lease duration, %s, must be a whole number of seconds, at least 1s", t.LeaseDuration)
	case t.RenewDeadline <= 0 || t.RetryPeriod <= 0:
		return errors.New("the renew deadline and the retry period must be positive")
	case t.LeaseDuration <= t.RenewDeadline:
		return fmt.Errorf("the lease duration, %s, must be longer than the renew deadline, %s", t.LeaseDuration, t.RenewDeadline)
	case float64(t.RenewDeadline) <= leaderelection.JitterFactor*float64(t.RetryPeriod):
		return fmt.Errorf("the renew deadline, %s, must be longer than %g times the retry period, %s", t.RenewDeadline, leaderelection.JitterFactor, t.RetryPeriod)
	}
	return nil
}

// RequestTimeout is the timeout of one request. It leaves time to repeat a renewal that hangs.
func (t Times) RequestTimeout() time.Duration {
	deadline := t.WithDefaults().RenewDeadline
	return min(max(time.Second, deadline/2), deadline)
}

// retryReleaseAfter is the delay before a failed release of a Lease is retried.
const retryReleaseAfter = 200 * time.Millisecond

// retryRelease calls release until it succeeds, a retry is pointless, or the renew deadline has passed.
// One failed request must not delay the next holder until the Lease expires.
func (t Times) retryRelease(ctx context.Context, release func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, t.WithDefaults().RenewDeadline)
	defer cancel()
	for {
		err := attemptRelease(ctx, t.RequestTimeout(), release)
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || !sleep(ctx, retryReleaseAfter) {
			return err
		}
	}
}

func attemptRelease(ctx context.Context, limit time.Duration, release func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return release(ctx)
}

// Lease is a shard's membership of a ring.
type Lease struct {
	Client coordinationv1client.LeasesGetter
	Ring   string
	// Namespace and Name of the Lease. The name is that of the shard.
	Namespace, Name string
	Times
	// Annotations are written with each renewal. Annotations with an empty value are removed: an earlier
	// process may have written them.
	Annotations map[string]string
	// RenewalAnnotations, if set, returns more annotations for each renewal. It must return at once. Annotations
	// with an empty value are removed, and all of them when the Lease is released.
	RenewalAnnotations func() map[string]string

	// clock is the clock of the tenure; nil means the machine's.
	clock func() time.Duration
}

// Validate returns an error if a name or time is invalid. It writes nothing.
func (l *Lease) Validate() error {
	var errs []error
	for _, name := range []struct{ of, value string }{{"ring", l.Ring}, {"shard", l.Name}} {
		if len(name.value) > shardingv1alpha1.MaxNameLength {
			errs = append(errs, fmt.Errorf("the name of the %s, %q, is longer than %d characters: it becomes part of a label, so choose a shorter one",
				name.of, name.value, shardingv1alpha1.MaxNameLength))
			continue
		}
		for _, problem := range validation.IsDNS1123Subdomain(name.value) {
			errs = append(errs, fmt.Errorf("%q cannot be the name of a %s: %s", name.value, name.of, problem))
		}
	}
	if l.Namespace == "" {
		errs = append(errs, errors.New("the namespace of the shard's lease is required: set it, or run in a pod"))
	}
	return errors.Join(append(errs, l.Times.Validate())...)
}

// Run joins the ring, calls work, and leaves the ring after work has returned. The context of work,
// leaseCtx, ends only when the Lease is lost; work has to return some time after ctx has ended.
//
// It returns nil after a graceful end, ErrNameTaken or ErrLeaseLost.
func (l *Lease) Run(ctx context.Context, work func(leaseCtx context.Context, member *Member)) error {
	if err := l.Validate(); err != nil {
		return err
	}
	member := newMember(*l)
	if err := member.claim(ctx); err != nil {
		if ctx.Err() != nil { // the process is stopping
			return nil
		}
		return err
	}
	// The process holds the Lease until the work has returned, not until the work is told to stop.
	electionCtx, stopElection := context.WithCancel(context.WithoutCancel(ctx))
	defer stopElection()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          member,
		LeaseDuration: member.LeaseDuration,
		RenewDeadline: member.RenewDeadline,
		RetryPeriod:   member.RetryPeriod,
		Name:          l.Name,
		// Leader election would release a Lease that it failed to renew before the work has ended, and
		// even one that another process holds by then.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { member.markAcquired() },
			OnStoppedLeading: member.lose,
		},
	})
	if err != nil {
		return fmt.Errorf("configuring the renewal of the lease: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(electionCtx)
	}()
	err = member.workWhileHeld(ctx, work)
	stopElection()
	<-ended
	if err == nil {
		member.release(context.WithoutCancel(ctx))
	}
	return err
}

// workWhileHeld waits until this process holds the Lease, and calls work with a context that ends when
// the Lease is lost.
func (m *Member) workWhileHeld(ctx context.Context, work func(context.Context, *Member)) error {
	select {
	case <-m.acquired:
	case <-ctx.Done():
		return nil
	}
	leaseCtx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	go m.expire(leaseCtx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(leaseCtx, m)
	}()
	select {
	case <-m.Lost():
		stop(ErrLeaseLost)
		<-done
		return ErrLeaseLost
	case <-done:
		return nil
	}
}
