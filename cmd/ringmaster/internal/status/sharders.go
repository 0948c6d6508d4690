package status

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// whoShards finds out who assigns the objects of the ring: the external sharder, if the ControllerRing has
// a status, and whoever leads in-process sharders.
func (d *declaration) whoShards(now time.Time) []Sharder {
	var sharders []Sharder
	if d.ring != nil && len(d.ring.Status.Conditions) > 0 {
		external := Sharder{Kind: External, Unseen: d.unelected}
		if d.election != nil {
			external = leader(External, d.election, now)
		}
		sharders = append(sharders, external)
	}
	for _, lease := range d.sharders {
		if ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
			sharders = append(sharders, leader(InProcess, lease, now))
		}
	}
	return sharders
}

// leader is who holds the Lease of an election. Its time is compared with this computer's clock, with some
// patience for the difference.
func leader(kind string, lease *coordinationv1.Lease, now time.Time) Sharder {
	s := Sharder{
		Kind: kind, Holder: ptr.Deref(lease.Spec.HolderIdentity, ""), Namespace: lease.Namespace,
		Since: seconds(lease.Spec.AcquireTime),
	}
	renewed := ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{})
	s.Silent = s.Holder == "" || now.Sub(renewed.Time) > 2*durationOf(lease)
	return s
}

// atWork tells whether there is a sharder of a kind, or of any with "".
func atWork(sharders []Sharder, kind string) bool {
	return slices.ContainsFunc(sharders, func(s Sharder) bool { return !s.Silent && (kind == "" || s.Kind == kind) })
}

// unseen tells whether all that is known of a sharder is that there was one.
func unseen(sharders []Sharder) bool {
	return !slices.ContainsFunc(sharders, func(s Sharder) bool { return !s.Silent && !s.Unseen }) &&
		slices.ContainsFunc(sharders, func(s Sharder) bool { return s.Unseen })
}

// sharderWarnings say what is wrong with who assigns objects.
func (d *declaration) sharderWarnings(sharders []Sharder) []string {
	switch {
	case d.blind:
		return nil
	case atWork(sharders, External) && atWork(sharders, InProcess):
		return []string{"two sharders assign its objects, the external one and one of its own instances. They do each other no harm, but one is enough: " +
			"delete the ControllerRing, or run the instances in another mode"}
	case unseen(sharders):
		return []string{fmt.Sprintf("there is no Lease of the sharder in the namespace %s: if it was installed there, it does not run, and new objects get no shard",
			shardingv1alpha1.NamespaceSystem)}
	case atWork(sharders, ""):
		return nil
	}
	const consequence = "new objects get no shard, and those of a shard that dies are not moved"
	switch {
	case len(sharders) > 0:
		return []string{fmt.Sprintf("no sharder is at work, by this computer's clock: %s. Look at the sharder's logs", consequence)}
	case d.ring != nil:
		return []string{fmt.Sprintf("no sharder has seen the ControllerRing: %s. Does the sharder run, in the namespace %s?", consequence, shardingv1alpha1.NamespaceSystem)}
	}
	return []string{fmt.Sprintf("nobody is its sharder: %s. Start the controller in the mode in-process (shard.ModeInProcess), or make a ControllerRing %s", consequence, d.name)}
}
