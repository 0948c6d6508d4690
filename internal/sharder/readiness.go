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

// readiness reports whether this replica can serve the webhook for every ring: it has observed all rings and
// Leases. Before that, it would let objects pass without a shard that another replica could assign. It then
// stays ready, even without an API server, because it answers from memory.
type readiness struct {
	sharder *Sharder
	// leases has synced when all Leases of the initial list have been observed.
	leases toolscache.ResourceEventHandlerRegistration
	ready  atomic.Bool
}

var (
	_ manager.LeaderElectionRunnable = &readiness{}

	errNotReady = errors.New("the caches of rings and shards have not synced yet")
)

// NeedLeaderElection is false: every replica serves the webhook.
func (r *readiness) NeedLeaderElection() bool { return false }

// Start learns all rings that exist. The catalog controller learns later ones.
func (r *readiness) Start(ctx context.Context) error {
	if !r.sharder.manager.GetCache().WaitForCacheSync(ctx) {
		return nil // the manager is stopping
	}
	rings := &shardingv1alpha1.ControllerRingList{}
	if err := r.sharder.manager.GetCache().List(ctx, rings); err != nil {
		return fmt.Errorf("listing rings: %w", err)
	}
	for i := range rings.Items {
		// A ring that cannot be resolved must not keep the others from being served. The catalog
		// controller retries, and the ring controller reports it.
		_, _ = r.sharder.learn(ctx, &rings.Items[i])
	}
	if toolscache.WaitForCacheSync(ctx.Done(), r.leases.HasSynced) {
		r.ready.Store(true)
	}
	return nil
}

// check is a healthz.Checker for the readiness probe.
func (r *readiness) check(*http.Request) error {
	if !r.ready.Load() {
		return errNotReady
	}
	return nil
}
