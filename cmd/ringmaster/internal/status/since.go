package status

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// labelSince returns when a label was written, according to the managed fields. They have one time for all fields of
// a manager, that of its last change: the label is at least that old, and exactly if the manager has no other field.
func labelSince(object *metav1.PartialObjectMetadata, label string) (since *metav1.Time, exact bool) {
	for i := range object.ManagedFields {
		entry := &object.ManagedFields[i]
		if entry.Time == nil || entry.FieldsV1 == nil {
			continue
		}
		owns, alone := ownsLabel(entry.FieldsV1.GetRawBytes(), label)
		// Several managers of a field agree on its value.
		if owns && (since == nil || entry.Time.Before(since)) {
			since, exact = entry.Time, alone
		}
	}
	if _, has := object.Labels[label]; since == nil && has && len(object.ManagedFields) > 0 && !object.CreationTimestamp.IsZero() {
		// A field that admission adds to an applied object has no manager until it is changed.
		return &object.CreationTimestamp, true
	}
	return since, exact
}

// drainSince returns when the drain label was written. During a drain, the sharder changes nothing else on the object.
// An object in two rings is an exception: its drain may be older.
func drainSince(object *metav1.PartialObjectMetadata, ring string) *metav1.Time {
	since, _ := labelSince(object, shardingv1alpha1.LabelDrain(ring))
	return since
}

// ownsLabel reports whether the label is among the fields, and whether it is the only one.
func ownsLabel(fields []byte, label string) (owns, alone bool) {
	all := below(fields)
	metadata := below(all["f:metadata"])
	labels := below(metadata["f:labels"])
	_, owns = labels["f:"+label]
	return owns, owns && len(all) == 1 && len(metadata) == 1 && len(labels) == 1
}

// below returns the members of a set of fields.
func below(fields json.RawMessage) map[string]json.RawMessage {
	found := map[string]json.RawMessage{}
	if len(fields) > 0 {
		_ = json.Unmarshal(fields, &found) // without a valid set, nothing is known
	}
	delete(found, ".")
	return found
}
