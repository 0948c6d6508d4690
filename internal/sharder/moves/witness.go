package moves

import (
	"context"
	"sync"
)

// witness tells which shards are alive, as of a moment after objects were read. What this process has seen of
// the Leases may be older than the objects: another replica, which has seen a shard join, has given it
// objects, and they would be taken from it while it works on them.
type witness struct {
	ask  func(context.Context) (map[string]bool, error)
	once sync.Once

	holders map[string]bool
	err     error
}

// newWitness returns a witness for objects that were read before.
func (p *pass) newWitness() *witness {
	return &witness{ask: func(ctx context.Context) (map[string]bool, error) { return p.Holders(ctx, p.declared.Name) }}
}

// saw tells whether a shard is alive. It asks once, and only if somebody wants to know: of all objects that
// are looked at, few are a dead shard's.
func (w *witness) saw(ctx context.Context, shard string) (bool, error) {
	w.once.Do(func() { w.holders, w.err = w.ask(ctx) })
	return w.holders[shard], w.err
}
