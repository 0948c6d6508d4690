package ownership

import (
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// record is how objects tell who owns them: the shard label names the owner, and the drain label asks it to release the
// object. The drain label's value names the next owner, or is anything else.
type record struct{ shardLabel, drainLabel, shard string }

func newRecord(ring, shard string) record {
	return record{shardLabel: shardingv1alpha1.LabelShard(ring), drainLabel: shardingv1alpha1.LabelDrain(ring), shard: shard}
}

// Selector selects the objects of this shard.
func (r record) Selector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{r.shardLabel: r.shard})
}

// owner is the shard that an object is recorded for.
func (r record) owner(object metav1.Object) string { return object.GetLabels()[r.shardLabel] }

// own tells whether an object is recorded for this shard.
func (r record) own(object metav1.Object) bool { return r.owner(object) == r.shard }

// asked tells whether this shard is asked to release an object, and which shard may be the next owner.
func (r record) asked(object metav1.Object) (next string, asked bool) {
	next, asked = object.GetLabels()[r.drainLabel]
	return next, asked
}

// mark records a new object for this shard, unless it is recorded for one already.
func (r record) mark(object metav1.Object) bool {
	if _, marked := object.GetLabels()[r.shardLabel]; marked {
		return false
	}
	marked := map[string]string{r.shardLabel: r.shard}
	maps.Copy(marked, object.GetLabels())
	object.SetLabels(marked)
	return true
}

// patch records an object of a version for another shard. Without one both labels are removed, which makes the webhook
// assign the object in that same write.
func (r record) patch(version, next string) (client.Patch, error) {
	changed := map[string]any{r.shardLabel: nil, r.drainLabel: nil}
	if next != "" {
		changed[r.shardLabel] = next
	}
	content, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version, "labels": changed}})
	return client.RawPatch(types.MergePatchType, content), err
}
