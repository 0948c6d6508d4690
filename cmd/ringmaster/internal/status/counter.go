package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// objectCounter counts the objects of one resource for one ring. It keeps a number for each shard, and no object.
type objectCounter struct {
	// shards are the numbers of objects by the shard that their label names, "" for those without one. draining
	// are the numbers of those that the shard is asked to release.
	shards, draining map[string]int
	oldest           *metav1.Time
	notSharded       int
	// err is why the objects could not be counted.
	err error
}

func newObjectCounter() *objectCounter {
	return &objectCounter{shards: map[string]int{}, draining: map[string]int{}}
}

// add counts an object. Selected is whether the ring selects its namespace.
func (t *objectCounter) add(ring string, resource *catalog.Resource, object *metav1.PartialObjectMetadata, selected bool) {
	if object.DeletionTimestamp != nil && len(object.Finalizers) == 0 {
		return // it is about to be deleted, and the sharder ignores it
	}
	if _, err := resource.MainObject(object); err != nil || !selected {
		t.notSharded++
		return
	}
	shard := object.Labels[shardingv1alpha1.LabelShard(ring)]
	t.shards[shard]++
	if _, draining := object.Labels[shardingv1alpha1.LabelDrain(ring)]; !draining {
		return
	}
	t.draining[shard]++
	if since := drainSince(object, ring); since != nil && (t.oldest == nil || since.Before(t.oldest)) {
		t.oldest = since.DeepCopy() // which does not keep the object
	}
}

// counts returns the result, given the members of the ring.
func (t *objectCounter) counts(c *shardSet) *Counts {
	counts := &Counts{NotSharded: t.notSharded, OldestDrain: t.oldest, Unassigned: t.shards[""]}
	for shard, n := range t.shards {
		counts.Objects += n
		if shard != "" && !c.leasesUnreadable && !c.members.Has(shard) {
			counts.Orphaned += n
		}
	}
	for _, n := range t.draining {
		counts.Draining += n
	}
	return counts
}

// add adds the counts of another resource.
func (c *Counts) add(other *Counts) {
	c.Objects += other.Objects
	c.Unassigned += other.Unassigned
	c.Orphaned += other.Orphaned
	c.Draining += other.Draining
	c.NotSharded += other.NotSharded
	if c.OldestDrain == nil || other.OldestDrain != nil && other.OldestDrain.Before(c.OldestDrain) {
		c.OldestDrain = other.OldestDrain
	}
}
