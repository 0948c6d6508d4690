package moves

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// liveness reports which shards are alive, at a time after the objects were read. The Leases that this process has
// observed may be older than the objects: another replica, which has observed that a shard joined, may have assigned
// objects to it, which must not be reassigned while the shard reconciles them.
type liveness struct {
	listHolders func(context.Context) (map[string]bool, error)
	clock       clock.PassiveClock

	mu       sync.Mutex
	listedAt time.Time
	holders  map[string]bool
	err      error
}

// livenessTTL is how long a result is used. A shard may return under its name at any time.
const livenessTTL = 500 * time.Millisecond

// newLiveness returns a liveness for objects that were read before the call.
func (p *pass) newLiveness() *liveness {
	return &liveness{clock: p.Clock, listHolders: func(ctx context.Context) (map[string]bool, error) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return p.Holders(ctx, p.declared.Name)
	}}
}

// alive reports whether a shard is alive. It reads the Leases only when it is called, because few of the listed objects
// have a dead owner.
func (l *liveness) alive(ctx context.Context, shard string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.clock.Now(); l.listedAt.IsZero() || now.Sub(l.listedAt) > livenessTTL {
		l.holders, l.err = l.listHolders(ctx)
		l.listedAt = now
	}
	return l.holders[shard], l.err
}
