package leases

import (
	"maps"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
)

// IgnoreRenewals is a predicate that drops updates which only renew a Lease: each shard sends one every two
// seconds. The Reconciler still notices a shard that stops renewing, because it requeues each Lease for the
// expiry of its last observed renewal.
func IgnoreRenewals() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, oldOK := update.ObjectOld.(*coordinationv1.Lease)
		after, ok := update.ObjectNew.(*coordinationv1.Lease)
		return !oldOK || !ok || !onlyRenewed(before, after)
	}}
}

// onlyRenewed reports whether only the renew time has changed, of a Lease whose state label is ready or missing.
// A renewal of an expired or dead shard changes its state.
func onlyRenewed(before, after *coordinationv1.Lease) bool {
	state := membership.State(after.Labels[shardingv1alpha1.LabelState])
	if state != membership.Ready && state != "" || before.UID != after.UID ||
		!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) {
		return false
	}
	oldSpec, spec := before.Spec, after.Spec
	if oldSpec.RenewTime == nil || spec.RenewTime == nil {
		return false
	}
	oldSpec.RenewTime = spec.RenewTime
	return equality.Semantic.DeepEqual(oldSpec, spec)
}
