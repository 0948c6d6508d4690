package leases

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
)

// shardEvent is an event about a shard.
type shardEvent struct{ eventType, reason, note string }

// stateEvent returns the event for a change of the state label.
func stateEvent(lease *coordinationv1.Lease, from, to membership.State) shardEvent {
	ring := lease.Labels[shardingv1alpha1.LabelControllerRing]
	switch {
	case to == membership.Expired:
		return shardEvent{corev1.EventTypeWarning, "ShardExpired", "The shard has not renewed its lease in time"}
	case to == membership.Dead && holder(lease) == "":
		return shardEvent{corev1.EventTypeNormal, "ShardReleased", "The shard left the ring " + ring + "; its objects are reassigned"}
	case to == membership.Dead:
		return shardEvent{corev1.EventTypeWarning, "ShardNotHeld", fmt.Sprintf("The lease is held by %q instead of the shard, so the shard is not a member of the ring %s", holder(lease), ring)}
	case from == membership.Expired:
		return shardEvent{corev1.EventTypeNormal, "ShardReady", "The shard renewed its lease again"}
	}
	return shardEvent{corev1.EventTypeNormal, "ShardReady", "The shard joined the ring " + ring}
}

// shardDead returns the event for a Lease that the sharder has taken over.
func shardDead(lease *coordinationv1.Lease) shardEvent {
	return shardEvent{
		corev1.EventTypeWarning, "ShardDead",
		fmt.Sprintf("The shard has not renewed its lease for more than %s, so the sharder took the lease over; the shard's objects are reassigned", duration(lease)),
	}
}

// shardForgotten is the event for a deleted Lease.
var shardForgotten = shardEvent{corev1.EventTypeNormal, "ShardForgotten", "The shard is dead and did not return, so its lease was deleted"}

// shardCordoned is the event for a member whose namespace the ring no longer accepts.
var shardCordoned = shardEvent{
	corev1.EventTypeNormal, "ShardCordoned",
	"The ring %s no longer accepts shards from namespace %s (spec.shardNamespaces): the shard gets no new objects, and its objects are drained",
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// duration returns the time from a renewal of a Lease to its expiry.
func duration(lease *coordinationv1.Lease) time.Duration {
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds > 0 {
		return time.Duration(*seconds) * time.Second
	}
	return membership.DefaultDuration
}
