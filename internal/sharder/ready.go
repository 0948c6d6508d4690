package sharder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// readiness is whether this replica can answer for every ring: it has seen all of them, and all
// Leases. Before that it would let objects pass without a shard that another replica could assign.
// It stays ready from then on, also without an API server: it answers from memory.
type readiness struct {
	sharder *Sharder
	// leases tells whether all Leases that there were at the start have been noted.
	leases toolscache.ResourceEventHandlerRegistration
	ready  atomic.Bool
}

var (
	_ manager.LeaderElectionRunnable = &readiness{}

	errNotReady = errors.New("not all rings and shards have been seen yet")
)

// NeedLeaderElection is false: every replica serves the webhook.
func (r *readiness) NeedLeaderElection() bool { return false }

// Start learns all rings that there are. Later ones come as news.
func (r *readiness) Start(ctx context.Context) error {
	if !r.sharder.manager.GetCache().WaitForCacheSync(ctx) {
		return nil // it is ending
	}
	rings := &shardingv1alpha1.ControllerRingList{}
	if err := r.sharder.manager.GetCache().List(ctx, rings); err != nil {
		return fmt.Errorf("listing rings: %w", err)
	}
	for i := range rings.Items {
		// One that cannot be learned must not keep the others from being served. The catalog's
		// controller tries again, and tells of it.
		_, _ = r.sharder.learn(ctx, &rings.Items[i])
	}
	if toolscache.WaitForCacheSync(ctx.Done(), r.leases.HasSynced) {
		r.ready.Store(true)
	}
	return nil
}

// check is for a readiness probe.
func (r *readiness) check(*http.Request) error {
	if !r.ready.Load() {
		return errNotReady
	}
	return nil
}
