package coordination

import "context"

// Write writes something under the lock.
func (g *Grant) Write(ctx context.Context, name, value string) error {
	return g.commit(ctx, Put(g.c.keys.join(name), value))
}
