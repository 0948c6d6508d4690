package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

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
	// ErrLost is returned when the Lease could not be renewed in time, or was taken over. What the
	// shard did must have ended by then, and the process should end too.
	ErrLost = errors.New("the lease of this shard is lost")
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
	return errors.Join(errs...)
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
	lock := &lock{
		Lease: *l, instance: string(uuid.NewUUID()),
		retry: cmp.Or(l.RetryPeriod, DefaultRetryPeriod),
	}
	if err := lock.claim(ctx); err != nil {
		if ctx.Err() != nil { // it was told to end meanwhile
			return nil
		}
		return err
	}
	// The Lease is released after the work has ended, not when the work is asked to end.
	election, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	started := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   cmp.Or(l.Duration, DefaultLeaseDuration),
		RenewDeadline:   cmp.Or(l.RenewDeadline, DefaultRenewDeadline),
		RetryPeriod:     lock.retry,
		ReleaseOnCancel: true,
		Name:            l.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(started) },
			OnStoppedLeading: func() {},
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
	return keep(ctx, func(held context.Context) { work(held, lock) }, started, ended, leave)
}

// keep works while the Lease is held.
func keep(ctx context.Context, work func(context.Context), started, ended <-chan struct{}, leave context.CancelFunc) error {
	select {
	case <-started:
	case <-ctx.Done():
		leave()
		<-ended
		return nil
	}
	held, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(held)
	}()
	select {
	case <-ended:
		stop(ErrLost)
		<-done
		return ErrLost
	case <-done:
	}
	leave()
	<-ended
	return nil
}

// lock is a shard's Lease as leader election sees it. On the wire the holder is the shard's name, as
// the contract wants it; here it is the process, so that two with one name know of each other.
type lock struct {
	Lease
	instance string
	retry    time.Duration

	mu      sync.Mutex
	current *coordinationv1.Lease
	leaving bool
}

var _ resourcelock.Interface = &lock{}

// Identity of this process.
func (l *lock) Identity() string { return l.Name + "_" + l.instance }

// Describe names the Lease in messages.
func (l *lock) Describe() string { return l.Namespace + "/" + l.Name }

// RecordEvent does nothing: the sharder records events on Leases.
func (l *lock) RecordEvent(string) {}

// claim waits until nobody else with the same name is alive. A container that was started again in
// its pod finds its own old Lease, which nobody renews; another process renews it within the time
// in which that would.
func (l *lock) claim(ctx context.Context) error {
	const renewals = 3
	first, err := l.read(ctx)
	if apierrors.IsNotFound(err) || err == nil && !l.foreign(first) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the lease %s: %w", l.Describe(), err)
	}
	timer := time.NewTimer(renewals * l.retry)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil
	}
	second, err := l.read(ctx)
	switch {
	case apierrors.IsNotFound(err), err == nil && !l.foreign(second):
		return nil
	case err != nil:
		return fmt.Errorf("reading the lease %s: %w", l.Describe(), err)
	case !first.Spec.RenewTime.Equal(second.Spec.RenewTime) || instanceOf(first) != instanceOf(second):
		return fmt.Errorf("%w: it renews the lease %s as %s. Give each instance a name of its own", ErrNameTaken, l.Describe(), instanceOf(second))
	}
	// Silent. Leader election would wait for the Lease to expire.
	nobody := ""
	second.Spec.HolderIdentity = &nobody
	if _, err := l.Client.Leases(l.Namespace).Update(ctx, second, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("taking over the lease %s of an instance that has ended: %w", l.Describe(), err)
	}
	return nil
}

// foreign tells whether another process holds the Lease under this shard's name.
func (l *lock) foreign(lease *coordinationv1.Lease) bool {
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == l.Name && instanceOf(lease) != l.instance
}

func instanceOf(lease *coordinationv1.Lease) string {
	return cmp.Or(lease.Annotations[shardingv1alpha1.AnnotationInstance], "unknown")
}

func (l *lock) read(ctx context.Context) (*coordinationv1.Lease, error) {
	return l.Client.Leases(l.Namespace).Get(ctx, l.Name, metav1.GetOptions{})
}

// Get reads the Lease.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease, err := l.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	l.current = lease
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	if record.HolderIdentity == l.Name {
		record.HolderIdentity = l.Name + "_" + instanceOf(lease)
	}
	// What it is compared by: two processes differ in the annotation alone.
	raw := fmt.Appendf(nil, "%+v", *record)
	return record, raw, nil
}

// Create writes a new Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}}
	l.fill(lease, record)
	created, err := l.Client.Leases(l.Namespace).Create(ctx, lease, metav1.CreateOptions{})
	if err == nil {
		l.current = created
	}
	return err
}

// Update writes the Lease, unless somebody has since it was read.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return errors.New("the lease was not read yet")
	}
	lease := l.current.DeepCopy()
	l.fill(lease, record)
	updated, err := l.Client.Leases(l.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
	if err == nil {
		l.current = updated
	}
	return err
}

// announce tells everybody that this shard is leaving, so that it is given nothing more.
func (l *lock) announce(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving = true
	if l.current == nil {
		return errors.New("the lease was not read yet")
	}
	lease := l.current.DeepCopy()
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shardingv1alpha1.AnnotationLeaving, "true")
	updated, err := l.Client.Leases(l.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("announcing that this shard leaves: %w", err) // the next renewal says it
	}
	l.current = updated
	return nil
}

func (l *lock) fill(lease *coordinationv1.Lease, record resourcelock.LeaderElectionRecord) {
	if record.HolderIdentity == l.Identity() {
		record.HolderIdentity = l.Name
	}
	spec := resourcelock.LeaderElectionRecordToLeaseSpec(&record)
	holder := record.HolderIdentity
	spec.HolderIdentity = &holder
	lease.Spec = spec
	metav1.SetMetaDataLabel(&lease.ObjectMeta, shardingv1alpha1.LabelControllerRing, l.Ring)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shardingv1alpha1.AnnotationInstance, l.instance)
	if l.leaving {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shardingv1alpha1.AnnotationLeaving, "true")
	} else {
		delete(lease.Annotations, shardingv1alpha1.AnnotationLeaving) // of the process before
	}
}
