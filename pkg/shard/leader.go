package shard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/membership"
)

// Leader is the leadership among the instances of an operator, for those that are written without controller-runtime. It
// is client-go's leader election, with two differences: the Lease is released after the work has ended and not when it is
// asked to end, and a leader that was paused for longer than its renew deadline does not go on.
type Leader struct {
	// Client reads and writes Leases.
	Client coordinationv1client.LeasesGetter
	// Namespace and Name are where the Lease is that all instances share.
	Namespace, Name string
	// Ring is the name under which 'ringmaster status' shows which instance leads. By default it is not shown there.
	Ring string
	// Instance is the name of this one, for people. By default it is the host's, which is the pod's.
	Instance string
	// Duration, RenewDeadline and RetryPeriod have the defaults of leader election.
	Duration, RenewDeadline, RetryPeriod time.Duration
}

// Run waits until this instance leads, calls work for as long as it does, and gives the leadership up after work has
// returned. Work must return soon after its context has ended, which it does when ctx ends or the leadership is lost.
//
// It returns nil after a graceful end, or ErrLost; the process should end in either case.
func (l *Leader) Run(ctx context.Context, work func(context.Context)) error {
	instance, err := l.instance()
	if err != nil {
		return err
	}
	times := membership.Times{LeaseDuration: l.Duration, RenewDeadline: l.RenewDeadline, RetryPeriod: l.RetryPeriod}
	if err := times.Validate(); err != nil {
		return err
	}
	return membership.NewCandidate(times, &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name},
		Client:     l.Client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: instance + "_" + string(uuid.NewUUID())},
		Labels:     map[string]string{shardingv1alpha1.LabelLeader: l.Ring},
	}).Run(ctx, l.Name, work)
}

func (l *Leader) instance() (string, error) {
	switch {
	case l.Client == nil:
		return "", errors.New("a leader needs a client for leases: set Leader.Client")
	case l.Namespace == "" || l.Name == "":
		return "", errors.New("the lease that the instances share has no name: set Leader.Namespace and Leader.Name")
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
