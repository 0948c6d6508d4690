package moves

import (
	"context"
	"sync"
)

// liveness tells which shards are alive, as of a moment after objects were read. What this process has seen of the Leases
// may be older than the objects: another replica, which has seen a shard join, has assigned objects to it, and they would
// be taken from it while it works on them.
type liveness struct {
	ask  func(context.Context) (map[string]bool, error)
	once sync.Once

	holders map[string]bool
	err     error
}

// newLiveness is for objects that were read before.
func (p *pass) newLiveness() *liveness {
	return &liveness{ask: func(ctx context.Context) (map[string]bool, error) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return p.Holders(ctx, p.declared.Name)
	}}
}

// alive tells whether a shard is alive. It asks once, and only when somebody wants to know: few of the objects that are
// listed name a dead shard.
func (l *liveness) alive(ctx context.Context, shard string) (bool, error) {
	l.once.Do(func() { l.holders, l.err = l.ask(ctx) })
	return l.holders[shard], l.err
}
