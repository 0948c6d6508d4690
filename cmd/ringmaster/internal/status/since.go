package status

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// labelSince finds out since when an object has a label, from what the API server notes about who wrote
// what. It notes one time for all that a writer owns, which is that of its last change. So the label is as
// old or older, and exactly as old if its writer owns nothing else.
func labelSince(object *metav1.PartialObjectMetadata, label string) (since *metav1.Time, exact bool) {
	for i := range object.ManagedFields {
		entry := &object.ManagedFields[i]
		if entry.Time == nil || entry.FieldsV1 == nil {
			continue
		}
		owns, alone := ownsLabel(entry.FieldsV1.GetRawBytes(), label)
		// Of several that own it, none has given it another value.
		if owns && (since == nil || entry.Time.Before(since)) {
			since, exact = entry.Time, alone
		}
	}
	if _, has := object.Labels[label]; since == nil && has && len(object.ManagedFields) > 0 && !object.CreationTimestamp.IsZero() {
		// Nobody owns what admission adds to an object that is applied. Who changes it later does.
		return &object.CreationTimestamp, true
	}
	return since, exact
}

// drainSince finds out since when an object has the drain label. While it has it, its sharder changes
// nothing else; unless the object is in two rings, and then the drain may be older.
func drainSince(object *metav1.PartialObjectMetadata, ring string) *metav1.Time {
	since, _ := labelSince(object, shardingv1alpha1.LabelDrain(ring))
	return since
}

// ownsLabel tells whether the label is among the fields, and whether it is alone there.
func ownsLabel(fields []byte, label string) (owns, alone bool) {
	all := below(fields)
	metadata := below(all["f:metadata"])
	labels := below(metadata["f:labels"])
	_, owns = labels["f:"+label]
	return owns, owns && len(all) == 1 && len(metadata) == 1 && len(labels) == 1
}

// below is what a set of fields has below itself. The set itself is among them as ".".
func below(fields json.RawMessage) map[string]json.RawMessage {
	found := map[string]json.RawMessage{}
	if len(fields) > 0 {
		_ = json.Unmarshal(fields, &found) // it comes from the API server; if it is no set, nothing is known
	}
	delete(found, ".")
	return found
}
