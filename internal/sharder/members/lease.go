package members

import (
	"cmp"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
)

// observedLease is a Lease with its last renewal.
type observedLease struct {
	membership.Lease
	key     types.NamespacedName
	ring    string
	facts   facts
	renewal renewal
	// resources is the unparsed declaration of the shard's resources.
	resources string
	// pod is the pod that the shard declares.
	pod string
}

// facts decide which Leases make members. A renewal changes none of them.
type facts struct {
	// created and uid are assigned by the API server, once.
	created                          int64
	uid                              types.UID
	held, leaving, complete, tooLong bool
	// excluded is whether its ring no longer accepts shards from its namespace, but did when the shard joined.
	excluded bool
	// deleted is whether the Lease was deleted while its shard held it. The shard may work until the Lease expires.
	deleted bool
}

// renewal changes with each write of a Lease's holder.
type renewal struct {
	holder            string
	acquired, renewed metav1.MicroTime
	transitions       int32
}

func newObservedLease(lease *coordinationv1.Lease) observedLease {
	spec := &lease.Spec
	o := observedLease{
		key:  types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name},
		ring: lease.Labels[shardingv1alpha1.LabelControllerRing],
	}
	o.Shard = lease.Name
	o.resources = lease.Annotations[shardingv1alpha1.AnnotationResources]
	o.pod = lease.Annotations[shardingv1alpha1.AnnotationPod]
	o.Holder = ptr.Deref(spec.HolderIdentity, "")
	_, o.Leaving = lease.Annotations[shardingv1alpha1.AnnotationLeaving]
	o.Complete = spec.AcquireTime != nil && spec.RenewTime != nil && ptr.Deref(spec.LeaseDurationSeconds, 0) > 0
	o.Duration = membership.DefaultDuration
	if seconds := ptr.Deref(spec.LeaseDurationSeconds, 0); seconds > 0 {
		o.Duration = time.Duration(seconds) * time.Second
	}
	o.facts = facts{
		created: lease.CreationTimestamp.Unix(), uid: lease.UID,
		held: o.Held(), leaving: o.Leaving, complete: o.Complete, tooLong: o.Duration > membership.MaxDuration,
	}
	o.renewal = renewal{o.Holder, ptr.Deref(spec.AcquireTime, metav1.MicroTime{}), ptr.Deref(spec.RenewTime, metav1.MicroTime{}), ptr.Deref(spec.LeaseTransitions, 0)}
	return o
}

// older orders Leases by age. The precision of creation timestamps is one second; within it, the UID decides.
func older(a, b *observedLease) int {
	return cmp.Or(
		cmp.Compare(a.facts.created, b.facts.created), cmp.Compare(a.facts.uid, b.facts.uid),
		cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.key.Name, b.key.Name),
	)
}

// precedes orders the holders, of which the first ones are members: excluded ones first, because they already are.
func precedes(a, b *observedLease) int {
	if a.facts.excluded != b.facts.excluded {
		if a.facts.excluded {
			return -1
		}
		return 1
	}
	return older(a, b)
}
