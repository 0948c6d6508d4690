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

// record reads and writes the owner of an object, which the shard label names. The drain label asks the
// owner to release the object; its value is the next owner, or any other string.
type record struct{ shardLabel, drainLabel, shard string }

func newRecord(ring, shard string) record {
	return record{shardLabel: shardingv1alpha1.LabelShard(ring), drainLabel: shardingv1alpha1.LabelDrain(ring), shard: shard}
}

// Selector selects the objects that this shard owns.
func (r record) Selector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{r.shardLabel: r.shard})
}

// owner returns the owner of an object.
func (r record) owner(object metav1.Object) string { return object.GetLabels()[r.shardLabel] }

// isOwn reports whether this shard owns an object.
func (r record) isOwn(object metav1.Object) bool { return r.owner(object) == r.shard }

// draining reports whether an object is being drained, and returns the next owner that the drain names.
func (r record) draining(object metav1.Object) (next string, draining bool) {
	next, draining = object.GetLabels()[r.drainLabel]
	return next, draining
}

// claim records this shard as the owner of a new object, unless the object has an owner.
func (r record) claim(object metav1.Object) bool {
	if _, assigned := object.GetLabels()[r.shardLabel]; assigned {
		return false
	}
	changed := map[string]string{r.shardLabel: r.shard}
	maps.Copy(changed, object.GetLabels())
	object.SetLabels(changed)
	return true
}

// patch records the next owner of an object, if the object still has the given version. Without a next
// owner it removes both labels, and the webhook assigns the object in the same write.
func (r record) patch(version, next string) (client.Patch, error) {
	changed := map[string]any{r.shardLabel: nil, r.drainLabel: nil}
	if next != "" {
		changed[r.shardLabel] = next
	}
	content, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version, "labels": changed}})
	return client.RawPatch(types.MergePatchType, content), err
}
