package shard

import (
	"context"
	"time"

	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/membership"
)

// The times of a Lease, as in leader election.
const (
	DefaultLeaseDuration = membership.DefaultLeaseDuration
	DefaultRenewDeadline = membership.DefaultRenewDeadline
	DefaultRetryPeriod   = membership.DefaultRetryPeriod
)

var (
	// ErrNameTaken is returned when another live process has the name of this shard.
	ErrNameTaken = membership.ErrNameTaken
	// ErrLeaseLost is returned when the Lease of the shard or the leader was not renewed in time or was taken
	// over. All work has ended by then, and the process should exit.
	ErrLeaseLost = membership.ErrLeaseLost
)

// Lease is a shard's membership of a ring.
type Lease struct {
	// Client reads and writes Leases.
	Client coordinationv1client.LeasesGetter
	// Ring is the name of the ring to join.
	Ring string
	// Namespace and Name of the Lease. The name is that of the shard, usually the name of the pod.
	Namespace, Name string
	// Duration, RenewDeadline and RetryPeriod have the defaults of leader election.
	Duration, RenewDeadline, RetryPeriod time.Duration
}

func (l *Lease) membership() *membership.Lease {
	return &membership.Lease{
		Client: l.Client, Ring: l.Ring, Namespace: l.Namespace, Name: l.Name,
		Times: membership.Times{LeaseDuration: l.Duration, RenewDeadline: l.RenewDeadline, RetryPeriod: l.RetryPeriod},
		// An earlier process of this name may have published counts, which would never change again.
		Annotations: map[string]string{shardingv1alpha1.AnnotationObjects: ""},
	}
}

// Validate returns an error if a name or time is invalid. It writes nothing.
func (l *Lease) Validate() error { return l.membership().Validate() }

// Run joins the ring, calls work, and leaves the ring after work has returned. The context of work
// ends when ctx ends or the Lease is lost; work must return soon after that.
//
// It returns nil after a graceful end, ErrNameTaken or ErrLeaseLost.
func (l *Lease) Run(ctx context.Context, work func(context.Context)) error {
	return l.membership().Run(ctx, func(leaseCtx context.Context, _ *membership.Member) {
		working, stop := context.WithCancelCause(leaseCtx)
		defer context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })()
		work(working)
	})
}
