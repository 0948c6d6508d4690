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

// keep takes over what another look found of a resource whose objects with a live shard were not looked at this time.
func (c *Counts) keep(resource schema.GroupResource, from Counts, live func(shard string) bool) {
	for shard, n := range from.Objects[resource] {
		if live(shard) {
			c.of(resource)[shard] += n
		}
	}
}

// of is what was found of a resource.
func (c *Counts) of(resource schema.GroupResource) map[string]int {
	if c.Objects == nil {
		c.Objects = map[schema.GroupResource]map[string]int{}
	}
	if c.Objects[resource] == nil {
		c.Objects[resource] = map[string]int{}
	}
	return c.Objects[resource]
}

func (c *Counts) add(resource schema.GroupResource, shard string) { c.of(resource)[shard]++ }
