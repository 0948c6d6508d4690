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

// ownerLabels reads and writes the owner of an object, which is the value of the shard label. The drain
// label asks the owner to release the object; its value is the next owner, or any other string.
type ownerLabels struct {
	shardLabel, drainLabel, shard string
	// fencePolicy is the name of the policy that protects this record.
	fencePolicy string
}

func newOwnerLabels(ring, shard string) ownerLabels {
	return ownerLabels{
		shardLabel: shardingv1alpha1.LabelShard(ring), drainLabel: shardingv1alpha1.LabelDrain(ring), shard: shard,
		fencePolicy: shardingv1alpha1.FencePolicy(ring),
	}
}

// Selector selects the objects that this shard owns.
func (l ownerLabels) Selector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{l.shardLabel: l.shard})
}

// owner returns the owner of an object.
func (l ownerLabels) owner(object metav1.Object) string { return object.GetLabels()[l.shardLabel] }

// isOwn reports whether this shard owns an object.
func (l ownerLabels) isOwn(object metav1.Object) bool { return l.owner(object) == l.shard }

// draining reports whether an object is being drained, and returns the next owner that the drain names.
func (l ownerLabels) draining(object metav1.Object) (next string, draining bool) {
	next, draining = object.GetLabels()[l.drainLabel]
	return next, draining
}

// claim records this shard as the owner of a new object, unless the object has an owner.
func (l ownerLabels) claim(object metav1.Object) bool {
	if _, assigned := object.GetLabels()[l.shardLabel]; assigned {
		return false
	}
	changed := map[string]string{l.shardLabel: l.shard}
	maps.Copy(changed, object.GetLabels())
	object.SetLabels(changed)
	return true
}

// patch records the next owner of an object, if the object still has the given version. Without a next
// owner it removes both labels, and the webhook assigns the object in the same write.
func (l ownerLabels) patch(version, next string) (client.Patch, error) {
	changed := map[string]any{l.shardLabel: nil, l.drainLabel: nil}
	if next != "" {
		changed[l.shardLabel] = next
	}
	content, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version, "labels": changed}})
	return client.RawPatch(types.MergePatchType, content), err
}
