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

// NoMereRenewals is a predicate that lets no renewal through that changes nothing: there is one every two
// seconds from each shard. A shard that stops renewing is noticed as soon as otherwise, because the
// Reconciler looks at each one when its last renewal known then runs out, and again if there was another.
func NoMereRenewals() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, was := update.ObjectOld.(*coordinationv1.Lease)
		after, is := update.ObjectNew.(*coordinationv1.Lease)
		return !was || !is || !mereRenewal(before, after)
	}}
}

// mereRenewal tells whether nothing has changed but the time of the renewal, of a Lease about which there is
// nothing to say: one that is shown as ready, or of which no state is shown.
func mereRenewal(before, after *coordinationv1.Lease) bool {
	state := membership.State(after.Labels[shardingv1alpha1.LabelState])
	if state != membership.Ready && state != "" || before.UID != after.UID ||
		!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) {
		return false
	}
	was, is := before.Spec, after.Spec
	if was.RenewTime == nil || is.RenewTime == nil {
		return false
	}
	was.RenewTime = is.RenewTime
	return equality.Semantic.DeepEqual(was, is)
}
