package moves

import (
	"context"
	"sync"

	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

const (
	// rememberedChildren bounds the children of a ring that wait for their owners. Those beyond are found by listing.
	rememberedChildren = 25000
	// handoverSample is after how many released objects it is known whether a shard hands children over by itself.
	handoverSample = 20
)

// pendingChildren are the children that should be on another shard and wait until their owner has been released, by the
// owner's key.
type pendingChildren struct {
	mu      sync.Mutex
	byOwner map[string][]child
	n       int
	shards  map[string]*handover
}

// child is a controlled object, as it was when it was listed.
type child struct {
	resource *catalog.Resource
	object
}

// handover is what was seen of the children of a shard's released objects. A shard of Ringmaster moves them itself, and
// writing them again would cost a conflict and a read for each.
type handover struct{ checked, moved int }

func newPendingChildren() *pendingChildren {
	c := &pendingChildren{}
	c.clear()
	return c
}

func (c *pendingChildren) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byOwner, c.n, c.shards = map[string][]child{}, 0, map[string]*handover{}
}

// add remembers a child, if there is room.
func (c *pendingChildren) add(owner string, waiting child) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, known := range c.byOwner[owner] {
		if known.uid == waiting.uid {
			c.byOwner[owner][i] = waiting
			return true
		}
	}
	if c.n >= rememberedChildren {
		return false
	}
	c.byOwner[owner] = append(c.byOwner[owner], waiting)
	c.n++
	return true
}

// take returns the children of an owner and forgets them.
func (c *pendingChildren) take(owner string) []child {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.byOwner[owner]
	delete(c.byOwner, owner)
	c.n -= len(taken)
	return taken
}

// owners are the keys of the owners that children wait for.
func (c *pendingChildren) owners() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make([]string, 0, len(c.byOwner))
	for key := range c.byOwner {
		keys = append(keys, key)
	}
	return keys
}

// movesThemselves tells whether a shard hands children over by itself.
func (c *pendingChildren) movesThemselves(shard string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.shards[shard]
	return seen != nil && seen.checked >= handoverSample && seen.moved == 0
}

// checked notes whether a child of a released object had to be moved.
func (c *pendingChildren) checked(shard string, moved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shards[shard] == nil {
		c.shards[shard] = &handover{}
	}
	c.shards[shard].checked++
	if moved {
		c.shards[shard].moved++
	}
}

// moveChildren lets the children of released objects follow these.
func (p *pass) moveChildren(ctx context.Context, owners []string) {
	var group sync.WaitGroup
	defer group.Wait()
	for _, owner := range owners {
		waiting := p.children.take(owner)
		if len(waiting) == 0 || p.children.movesThemselves(waiting[0].Shard) {
			continue // a shard that does it by itself may still be at it; the next pass finds what it leaves behind
		}
		slot := p.slot(waiting[0].resource)
		if p.writes.take(ctx, slot) != nil {
			return
		}
		group.Go(func() {
			defer p.writes.free(slot)
			p.follow(ctx, waiting)
		})
	}
}

// follow moves the children of one object to the shard that owns it now.
func (p *pass) follow(ctx context.Context, waiting []child) {
	located := sync.OnceValue(func() string {
		return p.locateOwner(ctx, waiting[0].resource.Resource.GroupResource(), waiting[0].owner)
	})
	for _, c := range waiting {
		decision := assignment.Controlled(c.Object, p.members.Owner(c.owner.Key()), p.members, located)
		if decision.Action == assignment.Keep || decision.Action == assignment.Assign {
			continue // its owner has not moved, or the next rescue finds it
		}
		moved, err := p.apply(ctx, c.resource, c.object, decision)
		if err != nil && ctx.Err() == nil {
			p.refuse(c.resource, c.object, err)
		}
		p.children.checked(c.Shard, moved)
	}
}
