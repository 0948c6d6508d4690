package moves

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

const (
	// maxPendingChildren bounds the children of a ring that wait for their controllers. A list finds the others.
	maxPendingChildren = 25000
	// handoverSample is the number of children after which it is known whether a shard hands children over itself.
	handoverSample = 20
)

// pendingChildren are the children that should be on another shard and wait for the release of their controllers, by
// the controller's key.
type pendingChildren struct {
	mu           sync.Mutex
	byController map[string]map[types.UID]child
	n            int
	shards       map[string]*handover
	// owned is the approximate number of main objects that each shard owns.
	owned map[string]int
}

// child is a controlled object, as it was listed.
type child struct {
	resource *catalog.Resource
	object
}

// handover counts the children of a shard's released objects, and those that the shard had not moved. A shard that
// uses the library moves them itself, and writing them again would cost a conflict and a read for each.
type handover struct{ checked, moved int }

func newPendingChildren() *pendingChildren {
	c := &pendingChildren{}
	c.clear(nil)
	return c
}

// clear removes all children, and sets the approximate number of main objects that each shard owns.
func (c *pendingChildren) clear(owned map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byController, c.n, c.shards, c.owned = map[string]map[types.UID]child{}, 0, map[string]*handover{}, map[string]int{}
	maps.Copy(c.owned, owned)
}

// addReleased counts released objects at their new owners, and returns how many objects these own.
func (c *pendingChildren) addReleased(destinations map[string]int) (owned int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for shard, n := range destinations {
		c.owned[shard] += n
		owned += c.owned[shard]
	}
	return owned
}

// add remembers a child, if there is room.
func (c *pendingChildren) add(controller string, waiting child) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	children := c.byController[controller]
	if _, known := children[waiting.uid]; !known {
		if c.n >= maxPendingChildren {
			return false
		}
		c.n++
	}
	if children == nil {
		children = map[types.UID]child{}
		c.byController[controller] = children
	}
	children[waiting.uid] = waiting
	return true
}

// take removes and returns the children of a controller.
func (c *pendingChildren) take(controller string) []child {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := slices.Collect(maps.Values(c.byController[controller]))
	delete(c.byController, controller)
	c.n -= len(taken)
	return taken
}

// controllers returns the keys of the controllers of pending children.
func (c *pendingChildren) controllers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make([]string, 0, len(c.byController))
	for key := range c.byController {
		keys = append(keys, key)
	}
	return keys
}

// handsOverChildren reports whether a shard hands children over itself.
func (c *pendingChildren) handsOverChildren(shard string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.shards[shard]
	return counts != nil && counts.checked >= handoverSample && counts.moved == 0
}

// checked counts a child of a released object, and whether it had to be moved.
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

// moveChildren moves the children of released objects after their controllers.
func (p *pass) moveChildren(ctx context.Context, owners []string) {
	var released [][]child
	for _, owner := range owners {
		waiting := p.children.take(owner)
		if len(waiting) == 0 || p.children.handsOverChildren(waiting[0].Shard) {
			continue // the shard may still be moving them; the next pass finds the others
		}
		released = append(released, waiting)
	}
	located := p.locateMany(ctx, released)
	var group sync.WaitGroup
	defer group.Wait()
	for _, waiting := range released {
		slot := p.slot(waiting[0].resource)
		if p.writes.acquire(ctx, slot) != nil {
			return
		}
		group.Go(func() {
			defer p.writes.release(slot)
			p.follow(ctx, waiting, located[waiting[0].main.Key()])
		})
	}
}

// locateMany returns the owners of released objects by key, if listing all objects of their new owners is cheaper than
// reading them one by one. It may miss some.
func (p *pass) locateMany(ctx context.Context, released [][]child) map[string]string {
	const (
		minReleased    = 20 // fewer objects are read one by one
		objectsPerRead = 25 // listing this many objects costs as much as reading one
	)
	wanted, destinations := map[string]bool{}, map[string]int{}
	for _, waiting := range released {
		key := waiting[0].main.Key()
		wanted[key] = true
		destinations[p.members.Owner(key)]++
	}
	if owned := p.children.addReleased(destinations); len(released) < minReleased || owned > objectsPerRead*len(released) {
		return nil
	}
	var mu sync.Mutex
	located := map[string]string{}
	ownedBy := selection(shardingv1alpha1.LabelShard(p.declared.Name) + " in (" + strings.Join(slices.Sorted(maps.Keys(destinations)), ",") + ")")
	p.each(mainResources(p.declared), func(resource *catalog.Resource) {
		p.fail(resource.Resource.GroupResource(), p.list(ctx, resource, ownedBy, func(o object, _ *liveness) error {
			mu.Lock()
			defer mu.Unlock()
			if key := o.main.Key(); wanted[key] {
				located[key] = o.Shard
			}
			return nil
		}))
	})
	return located
}

// follow moves the children of a controller to its current owner, which is read if located is empty.
func (p *pass) follow(ctx context.Context, waiting []child, located string) {
	locate := sync.OnceValue(func() string {
		if located != "" {
			return located
		}
		return p.locateController(ctx, waiting[0].resource.Resource.GroupResource(), waiting[0].main)
	})
	for _, c := range waiting {
		decision := assignment.DecideControlled(c.Object, p.members.Owner(c.main.Key()), p.members, locate)
		if decision.Action == assignment.Keep || decision.Action == assignment.Assign {
			continue // its controller has not moved, or the next rescue finds it
		}
		moved, err := p.apply(ctx, c.resource, c.object, decision)
		if err != nil && ctx.Err() == nil {
			p.writeFailed(c.resource, c.object, err)
		}
		p.children.checked(c.Shard, moved)
	}
}
