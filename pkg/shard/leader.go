package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// Leader is the leadership among the instances of an operator, for those that are written without
// controller-runtime. It is client-go's leader election, with two differences: the Lease is given up after
// the work has ended and not when it is told to, and a leader that was paused for longer than its renew
// deadline does not go on.
type Leader struct {
	// Client reads and writes Leases.
	Client coordinationv1client.LeasesGetter
	// Namespace and Name are where the Lease is that all instances share.
	Namespace, Name string
	// Ring is the name under which 'ringmaster status' shows who leads. By default it is not shown there.
	Ring string
	// Instance is the name of this one, for people. By default it is the host's, which is the pod's.
	Instance string
	// Duration, RenewDeadline and RetryPeriod have the defaults of leader election.
	Duration, RenewDeadline, RetryPeriod time.Duration
}

// Run waits until this instance leads, calls work for as long as it does, and gives the leadership up
// after work has returned. Work must return soon after its context has ended, which it does when ctx ends
// or the leadership is lost.
//
// It returns nil after a good end, or ErrLost; the process should end in either case.
func (l *Leader) Run(ctx context.Context, work func(context.Context)) error {
	instance, err := l.instance()
	if err != nil {
		return err
	}
	times := &Lease{Duration: l.Duration, RenewDeadline: l.RenewDeadline, RetryPeriod: l.RetryPeriod}
	if err := times.validateTimes(); err != nil {
		return err
	}
	deadline := cmp.Or(l.RenewDeadline, DefaultRenewDeadline)
	c := newCandidacy(deadline, &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name},
		Client:     l.Client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: instance + "_" + string(uuid.NewUUID())},
		Labels:     map[string]string{shardingv1alpha1.LabelLeader: l.Ring},
	})
	started := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: c, Name: l.Name,
		LeaseDuration: cmp.Or(l.Duration, DefaultLeaseDuration), RenewDeadline: deadline, RetryPeriod: cmp.Or(l.RetryPeriod, DefaultRetryPeriod),
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

func (l *Leader) instance() (string, error) {
	switch {
	case l.Client == nil:
		return "", errors.New("a leader needs a client for leases")
	case l.Namespace == "" || l.Name == "":
		return "", errors.New("which lease the instances share is not said: set the leader's namespace and name")
	case len(l.Ring) > shardingv1alpha1.MaxNameLength:
		return "", fmt.Errorf("the name of the ring, %q, is longer than %d characters: it becomes a label, so choose a shorter one", l.Ring, shardingv1alpha1.MaxNameLength)
	case l.Instance != "":
		return l.Instance, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("this instance has no name: %w", err)
	}
	return host, nil
}

// lead works while this process leads.
func (c *candidacy) lead(ctx context.Context, started <-chan struct{}, work func(context.Context)) error {
	select {
	case <-started:
	case <-ctx.Done():
		return nil
	}
	if !c.valid() { // it was paused just now
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
	case <-c.lost:
		stop(ErrLost)
		<-done
		return ErrLost
	case <-done:
		return nil
	}
}

// release gives the leadership up, if it is still this process's. If that fails, it runs out.
func (c *candidacy) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.deadline)
	defer cancel()
	for range attempts { // the last renewal may still be under way
		record, _, err := c.Interface.Get(ctx)
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
