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

// Leader runs leader election for an operator that is written without controller-runtime. It is
// client-go's leader election with two differences: it releases the Lease after the work has returned,
// not when the work is told to stop, and a leader that was paused for longer than its renew deadline
// does not continue.
type Leader struct {
	// Client reads and writes Leases.
	Client coordinationv1client.LeasesGetter
	// Namespace and Name of the Lease that all instances of the operator share.
	Namespace, Name string
	// Ring is the name under which 'ringmaster status' shows the leader. By default it is not shown.
	Ring string
	// Instance is the name of this process that users see. By default it is the hostname, which is the
	// name of the pod.
	Instance string
	// Duration, RenewDeadline and RetryPeriod have the defaults of leader election.
	Duration, RenewDeadline, RetryPeriod time.Duration
}

// Run waits until this process leads, calls work, and releases the Lease after work has returned. The
// context of work ends when ctx ends or the Lease is lost; work must return soon after that.
//
// It returns nil after a graceful end, or ErrLeaseLost; the process should end in either case.
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
		return "", errors.New("Leader.Client is required: set it to a client for leases")
	case l.Namespace == "" || l.Name == "":
		return "", errors.New("Leader.Namespace and Leader.Name are required: set them to the lease that all instances share")
	case len(l.Ring) > shardingv1alpha1.MaxNameLength:
		return "", fmt.Errorf("the name of the ring, %q, is longer than %d characters: it becomes a label, so choose a shorter one", l.Ring, shardingv1alpha1.MaxNameLength)
	case l.Instance != "":
		return l.Instance, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("reading the hostname (set Leader.Instance): %w", err)
	}
	return host, nil
}
