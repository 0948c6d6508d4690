package moves

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// liveness tells which shards are alive, as of a moment after objects were read. What this process has seen of the Leases
// may be older than the objects: another replica, which has seen a shard join, has assigned objects to it, and they would
// be taken from it while it works on them.
type liveness struct {
	ask   func(context.Context) (map[string]bool, error)
	clock clock.PassiveClock

	mu      sync.Mutex
	asked   time.Time
	holders map[string]bool
	err     error
}

// aliveFor is how long an answer is used. A shard may come back under its name at any time.
const aliveFor = 500 * time.Millisecond

// newLiveness is for objects that were read before.
func (p *pass) newLiveness() *liveness {
	return &liveness{clock: p.Clock, ask: func(ctx context.Context) (map[string]bool, error) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return p.Holders(ctx, p.declared.Name)
	}}
}

// alive tells whether a shard is alive. It asks only when somebody wants to know: few of the objects that are listed name a
// dead shard.
func (l *liveness) alive(ctx context.Context, shard string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.clock.Now(); l.asked.IsZero() || now.Sub(l.asked) > aliveFor {
		l.holders, l.err = l.ask(ctx)
		l.asked = now
	}
	return l.holders[shard], l.err
}
