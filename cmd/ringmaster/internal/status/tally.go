package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// tally counts the objects of one resource for one ring. It keeps a number for each shard that is named,
// and no object.
type tally struct {
	// shards is how many objects name a shard, "" those that name none; draining how many of them it was
	// asked to let go.
	shards, draining map[string]int
	oldest           *metav1.Time
	notSpread        int
	// err is why there is nothing to count.
	err error
}

func newTally() *tally { return &tally{shards: map[string]int{}, draining: map[string]int{}} }

// add counts an object. Selected is whether the ring spreads the objects of its namespace.
func (t *tally) add(ring string, resource *catalog.Resource, object *metav1.PartialObjectMetadata, selected bool) {
	if object.DeletionTimestamp != nil && len(object.Finalizers) == 0 {
		return // it is as good as gone, and the sharder leaves it alone too
	}
	if _, err := resource.MainObject(object); err != nil || !selected {
		t.notSpread++
		return
	}
	shard := object.Labels[shardingv1alpha1.LabelShard(ring)]
	t.shards[shard]++
	if _, draining := object.Labels[shardingv1alpha1.LabelDrain(ring)]; !draining {
		return
	}
	t.draining[shard]++
	if since := drainSince(object, ring); since != nil && (t.oldest == nil || since.Before(t.oldest)) {
		t.oldest = since.DeepCopy() // not the object with it
	}
}

// counts is what came of it, with the ring's members.
func (t *tally) counts(c *cast) *Counts {
	counts := &Counts{NotSpread: t.notSpread, OldestDrain: t.oldest, Unassigned: t.shards[""]}
	for shard, n := range t.shards {
		counts.Objects += n
		if shard != "" && !c.blind && !c.members.Has(shard) {
			counts.Stranded += n
		}
	}
	for _, n := range t.draining {
		counts.Draining += n
	}
	return counts
}

// add adds others.
func (c *Counts) add(other *Counts) {
	c.Objects += other.Objects
	c.Unassigned += other.Unassigned
	c.Stranded += other.Stranded
	c.Draining += other.Draining
	c.NotSpread += other.NotSpread
	if c.OldestDrain == nil || other.OldestDrain != nil && other.OldestDrain.Before(c.OldestDrain) {
		c.OldestDrain = other.OldestDrain
	}
}
