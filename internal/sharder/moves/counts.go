package moves

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// Counts are the numbers of a ring's objects.
type Counts struct {
	// Objects are the numbers by resource and shard, as of the last resync. The shard "" has the unassigned objects.
	Objects map[schema.GroupResource]map[string]int
	// Unassigned is the number of unassigned and orphaned objects that could not be assigned.
	Unassigned int
	// Took is the duration of the resync with its moves, or zero if this is not the result of a resync.
	Took time.Duration

	// withoutOwner are the unassigned and orphaned objects by resource.
	withoutOwner map[schema.GroupResource]unassigned
}

// unassigned are the numbers of objects of a resource without a live owner.
type unassigned struct{ orphaned, unlabelled int }

// keep copies the counts of an earlier pass for a resource whose assigned objects were not listed this time.
func (c *Counts) keep(resource schema.GroupResource, from Counts, live func(shard string) bool) {
	for shard, n := range from.Objects[resource] {
		if live(shard) {
			c.of(resource)[shard] += n
		}
	}
}

// of returns the counts of a resource by shard.
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

func (c *Counts) setUnassigned(resource schema.GroupResource, n unassigned) {
	if c.withoutOwner == nil {
		c.withoutOwner = map[schema.GroupResource]unassigned{}
	}
	c.withoutOwner[resource] = n
}

func (c *Counts) addUnassigned(resource schema.GroupResource, withoutLabel bool) {
	n := c.withoutOwner[resource]
	if withoutLabel {
		n.unlabelled++
	} else {
		n.orphaned++
	}
	c.setUnassigned(resource, n)
}

// owned returns the number of main objects that each shard owns.
func (c *Counts) owned(declared *catalog.Ring) map[string]int {
	owned := map[string]int{}
	for _, resource := range mainResources(declared) {
		for shard, n := range c.Objects[resource.Resource.GroupResource()] {
			owned[shard] += n
		}
	}
	return owned
}
