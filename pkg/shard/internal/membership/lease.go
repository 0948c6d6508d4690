package membership

import (
	"cmp"
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

// ErrNameTaken is returned when another live process is this shard already.
var ErrNameTaken = errors.New("another live process has the name of this shard")

// Times are those of leader election. Zero values have its defaults.
type Times struct {
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// WithDefaults fills in what is not set.
func (t Times) WithDefaults() Times {
	return Times{
		LeaseDuration: cmp.Or(t.LeaseDuration, DefaultLeaseDuration),
		RenewDeadline: cmp.Or(t.RenewDeadline, DefaultRenewDeadline),
		RetryPeriod:   cmp.Or(t.RetryPeriod, DefaultRetryPeriod),
	}
}

// Validate tells what is wrong: the times must leave a shard that cannot renew enough time to stop before its Lease
// expires.
func (t Times) Validate() error {
	t = t.WithDefaults()
	switch {
	case t.LeaseDuration < time.Second || t.LeaseDuration%time.Second != 0:
		return fmt.Errorf("the lease duration, %s, must be a number of seconds", t.LeaseDuration)
	case t.RenewDeadline <= 0 || t.RetryPeriod <= 0:
		return errors.New("the renew deadline and the retry period must be longer than nothing")
	case t.LeaseDuration <= t.RenewDeadline:
		return fmt.Errorf("the lease duration, %s, must be longer than the renew deadline, %s", t.LeaseDuration, t.RenewDeadline)
	case float64(t.RenewDeadline) <= leaderelection.JitterFactor*float64(t.RetryPeriod):
		return fmt.Errorf("the renew deadline, %s, must be longer than %g times the retry period, %s", t.RenewDeadline, leaderelection.JitterFactor, t.RetryPeriod)
	}
	return nil
}

// RequestTimeout bounds one request, so that a renewal can be repeated before the deadline if it hangs.
func (t Times) RequestTimeout() time.Duration {
	deadline := t.WithDefaults().RenewDeadline
	return min(max(time.Second, deadline/2), deadline)
}

// Lease is how a shard is a member of a ring.
type Lease struct {
	Client coordinationv1client.LeasesGetter
	Ring   string
	// Namespace and Name are where the Lease is. The name is the shard's.
	Namespace, Name string
	Times
	// Annotations are written with each renewal. Those with an empty value are removed: a process before this one may
	// have left them.
	Annotations map[string]string

	// clock is that of the tenure; nil is the machine's.
	clock func() time.Duration
}

// Validate tells what is wrong with the names and times, before anything is written.
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
		errs = append(errs, errors.New("the namespace of the shard's lease is not known: set it, or run in a pod"))
	}
	return errors.Join(append(errs, l.Times.Validate())...)
}

// Run joins the ring, calls work for as long as the Lease is held, and leaves the ring after work has returned. The context
// of the work lives for as long as the Lease is held; the work itself has to return some time after ctx has ended.
//
// It returns nil after a graceful end, ErrNameTaken or ErrLost.
func (l *Lease) Run(ctx context.Context, work func(held context.Context, member *Member)) error {
	if err := l.Validate(); err != nil {
		return err
	}
	member := newMember(*l)
	if err := member.claim(ctx); err != nil {
		if ctx.Err() != nil { // it was told to end meanwhile
			return nil
		}
		return err
	}
	// The Lease is kept until the work has ended, not until the work is asked to end.
	election, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          member,
		LeaseDuration: member.LeaseDuration,
		RenewDeadline: member.RenewDeadline,
		RetryPeriod:   member.RetryPeriod,
		Name:          l.Name,
		// It would release the Lease before the work has ended, when it could not renew it; and one that belongs to
		// another process by then.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { member.start() },
			OnStoppedLeading: member.lose,
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
	err = member.keep(ctx, work)
	leave()
	<-ended
	if err == nil {
		member.release(context.WithoutCancel(ctx))
	}
	return err
}

// keep works while the Lease is held.
func (m *Member) keep(ctx context.Context, work func(context.Context, *Member)) error {
	select {
	case <-m.started:
	case <-ctx.Done():
		return nil
	}
	held, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	go m.expire(held)
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(held, m)
	}()
	select {
	case <-m.Lost():
		stop(ErrLost)
		<-done
		return ErrLost
	case <-done:
		return nil
	}
}
