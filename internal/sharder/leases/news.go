package leases

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
)

// news is an event about a shard.
type news struct{ kind, reason, note string }

// shown is what to say when another state is shown.
func shown(lease *coordinationv1.Lease, from, to membership.State) news {
	ring := lease.Labels[shardingv1alpha1.LabelControllerRing]
	switch {
	case to == membership.Expired:
		return news{corev1.EventTypeWarning, "ShardExpired", "The shard has not renewed its lease in time"}
	case to == membership.Dead && holder(lease) == "":
		return news{corev1.EventTypeNormal, "ShardReleased", "The shard left the ring " + ring + "; its objects are reassigned"}
	case to == membership.Dead:
		return news{corev1.EventTypeWarning, "ShardNotHeld", fmt.Sprintf("The lease is held by %q instead of the shard, so the shard is not a member of the ring %s", holder(lease), ring)}
	case from == membership.Expired:
		return news{corev1.EventTypeNormal, "ShardReady", "The shard renewed its lease again"}
	}
	return news{corev1.EventTypeNormal, "ShardReady", "The shard joined the ring " + ring}
}

// takenOver is what to say when the sharder has taken a Lease.
func takenOver(lease *coordinationv1.Lease) news {
	return news{
		corev1.EventTypeWarning, "ShardDead",
		fmt.Sprintf("The shard has not renewed its lease for more than %s, so the sharder took the lease over; the shard's objects are reassigned", duration(lease)),
	}
}

// forgotten is what to say when a Lease was deleted.
var forgotten = news{corev1.EventTypeNormal, "ShardForgotten", "The shard is dead and did not return, so its lease was deleted"}

// excluded is what to say when a ring no longer takes shards from the namespace of a member.
var excluded = news{
	corev1.EventTypeNormal, "ShardCordoned",
	"The ring %s no longer accepts shards from namespace %s (spec.shardNamespaces): the shard gets no new objects, and its objects are drained",
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// duration is how long a renewal of the Lease is good for.
func duration(lease *coordinationv1.Lease) time.Duration {
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds > 0 {
		return time.Duration(*seconds) * time.Second
	}
	return membership.DefaultDuration
}
