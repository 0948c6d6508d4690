package moves

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Counts are what a sync found.
type Counts struct {
	// Objects are by resource and shard. The shard "" has those without one.
	Objects map[schema.GroupResource]map[string]int
	// Unassigned are those without a live shard that could not be given one.
	Unassigned int
	// Took is how long it took, with the moves that came of it.
	Took time.Duration
}

func (c *Counts) add(resource schema.GroupResource, shard string) {
	if c.Objects == nil {
		c.Objects = map[schema.GroupResource]map[string]int{}
	}
	if c.Objects[resource] == nil {
		c.Objects[resource] = map[string]int{}
	}
	c.Objects[resource][shard]++
}
