package status

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// activeSharders returns the sharders of the ring: the external one, if the ControllerRing has a status, and elected
// in-process ones.
func (d *declaration) activeSharders(now time.Time) []Sharder {
	var sharders []Sharder
	if d.ring != nil && len(d.ring.Status.Conditions) > 0 {
		external := Sharder{Kind: External, Unseen: d.electionMissing}
		if d.election != nil {
			external = sharderFromLease(External, d.election, now)
		}
		sharders = append(sharders, external)
	}
	for _, lease := range d.sharders {
		if ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
			sharders = append(sharders, sharderFromLease(InProcess, lease, now))
		}
	}
	return sharders
}

// sharderFromLease returns the holder of the Lease of an election. It allows twice the lease duration, because the
// renew time is compared with the clock of this computer.
func sharderFromLease(kind string, lease *coordinationv1.Lease, now time.Time) Sharder {
	s := Sharder{
		Kind: kind, Holder: ptr.Deref(lease.Spec.HolderIdentity, ""), Namespace: lease.Namespace,
		Since: timeOf(lease.Spec.AcquireTime),
	}
	renewed := ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{})
	s.Silent = s.Holder == "" || now.Sub(renewed.Time) > 2*durationOf(lease)
	return s
}

// anyActive reports whether a sharder of a kind is active, or any with "".
func anyActive(sharders []Sharder, kind string) bool {
	return slices.ContainsFunc(sharders, func(s Sharder) bool { return !s.Silent && (kind == "" || s.Kind == kind) })
}

// activityUnknown reports whether it is not known if a sharder is still active.
func activityUnknown(sharders []Sharder) bool {
	return !slices.ContainsFunc(sharders, func(s Sharder) bool { return !s.Silent && !s.Unseen }) &&
		slices.ContainsFunc(sharders, func(s Sharder) bool { return s.Unseen })
}

// sharderWarnings returns the problems of the ring's sharders.
func (d *declaration) sharderWarnings(sharders []Sharder) []string {
	switch {
	case d.leasesUnreadable, d.ringsUnreadable && len(sharders) == 0:
		return nil
	case anyActive(sharders, External) && anyActive(sharders, InProcess):
		if d.ring != nil && meta.IsStatusConditionFalse(d.ring.Status.Conditions, shardingv1alpha1.ConditionSole) {
			return nil // the condition is shown, too
		}
		return []string{"two sharders are active: the external one and an in-process one. This is safe, but does the work twice: " +
			"run the instances in mode shard, or delete the ControllerRing"}
	case activityUnknown(sharders):
		return []string{fmt.Sprintf("the sharder has no Lease in the namespace %s: if it is installed there, it is not running, and new objects are not assigned",
			shardingv1alpha1.NamespaceSystem)}
	case anyActive(sharders, ""):
		return nil
	}
	const consequence = "new objects are not assigned, and the objects of dead shards are not moved"
	switch {
	case len(sharders) > 0:
		return []string{fmt.Sprintf("no sharder is active, by the clock of this computer: %s. Check the logs of the sharder", consequence)}
	case d.ring != nil:
		return []string{fmt.Sprintf("no sharder has observed the ControllerRing: %s. Check that the sharder is running in the namespace %s", consequence, shardingv1alpha1.NamespaceSystem)}
	}
	return []string{fmt.Sprintf("no sharder is active: %s. Start the controller in the mode in-process (shard.ModeInProcess), or create a ControllerRing %s", consequence, d.name)}
}
