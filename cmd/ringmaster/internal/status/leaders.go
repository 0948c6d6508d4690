package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// leaderLease is the Lease of the election of an operator in which one instance reconciles all objects.
type leaderLease struct {
	ring  string
	lease *coordinationv1.Lease
}

// leaderLeases returns the Leases of leaders, sorted by name.
func leaderLeases(found []coordinationv1.Lease) []leaderLease {
	var all []leaderLease
	for i := range found {
		if ring := found[i].Labels[shardingv1alpha1.LabelLeader]; ring != "" { // a leader of another mode clears the label
			all = append(all, leaderLease{ring, &found[i]})
		}
	}
	slices.SortFunc(all, func(a, b leaderLease) int {
		return cmp.Or(cmp.Compare(a.ring, b.ring), cmp.Compare(a.lease.Namespace, b.lease.Namespace), cmp.Compare(a.lease.Name, b.lease.Name))
	})
	return all
}

// report returns the state of the leader.
func (l leaderLease) report(now time.Time) Leader {
	elected := sharderFromLease("", l.lease, now)
	r := Leader{
		Name: l.ring, Namespace: l.lease.Namespace, Lease: l.lease.Name,
		Holder: elected.Holder, Since: elected.Since, Silent: elected.Silent,
		Renewed: timeOf(l.lease.Spec.RenewTime), Transitions: ptr.Deref(l.lease.Spec.LeaseTransitions, 0),
	}
	r.Instance, _, _ = strings.Cut(elected.Holder, "_") // the rest distinguishes processes with the same name
	if r.Renewed != nil {
		r.Expires = &metav1.Time{Time: r.Renewed.Add(durationOf(l.lease))}
	}
	if r.Holder == "" {
		r.Since = r.Renewed // a release sets the renew time
	}
	r.Resources = namesOf(l.resources())
	return r
}

// resources returns the resources that the leader declares, or none.
func (l leaderLease) resources() []shardingv1alpha1.RingResource {
	var declared []shardingv1alpha1.RingResource
	_ = json.Unmarshal([]byte(l.lease.Annotations[shardingv1alpha1.AnnotationResources]), &declared) // otherwise unknown
	return declared
}

// active reports whether an instance leads, by the clock of this computer.
func (l leaderLease) active(now time.Time) bool { return !sharderFromLease("", l.lease, now).Silent }

// isLeftover reports whether the Lease is left over from before the operator was sharded.
func (l leaderLease) isLeftover(rings []*ringState, now time.Time) bool {
	return !l.active(now) && slices.ContainsFunc(rings, func(f *ringState) bool { return f.name == l.ring })
}

// replacedByLeader reports whether a ring has no members any more and one instance leads instead.
func (w *clusterState) replacedByLeader(f *ringState, now time.Time) bool {
	return !f.leasesUnreadable && len(f.shardSet(now).members.Members()) == 0 &&
		slices.ContainsFunc(w.leaders, func(l leaderLease) bool { return l.ring == f.name && l.active(now) })
}

// The states of a leader that are shown to people.
const (
	stateLeading       = "leading"
	stateNotRenewing   = "not renewing"
	stateWithoutLeader = "no leader"
)

// State returns the state that is shown to people.
func (l *Leader) State() string {
	switch {
	case l.Instance == "":
		return stateWithoutLeader
	case l.Silent:
		return stateNotRenewing
	}
	return stateLeading
}

// leadersOf returns the leaders that reconcile a resource. If no ring and no leader declares it, it returns the
// leaders that do not declare their resources.
func (w *clusterState) leadersOf(resource schema.GroupResource, sharded bool, now time.Time) []leaderLease {
	var certain, possible []leaderLease
	for _, l := range w.leaders {
		declared := namesOf(l.resources())
		switch {
		case l.isLeftover(w.rings, now):
		case slices.Contains(declared, resource.String()):
			certain = append(certain, l)
		case len(declared) == 0:
			possible = append(possible, l)
		}
	}
	if len(certain) == 0 && !sharded {
		return possible
	}
	return certain
}

// place returns the state of an object of an operator in which one instance reconciles all objects.
func (l leaderLease) place(object *metav1.PartialObjectMetadata, now time.Time) Place {
	r := l.report(now)
	p := Place{
		Ring: l.ring, Ownership: Ownership{Shard: r.Instance, State: r.State(), Since: r.Since, SinceExact: true},
		Desired: r.Instance, Reason: OwnedByLeader,
	}
	switch {
	case r.Instance == "":
		p.Reason, p.Message = NoLeader, fmt.Sprintf("The object is not reconciled: no instance of %s leads. Start the controller.", l.ring)
	case r.Silent:
		p.Reason = LeaderNotRenewing
		p.Message = fmt.Sprintf("%s leads %s, but has not renewed its Lease for %s, by the clock of this computer. The object is not reconciled until another instance leads.",
			r.Instance, l.ring, age(r.Renewed, now))
	case len(r.Resources) == 0:
		p.Reason = Unknown
		p.Message = fmt.Sprintf("No ring has the resource. %s leads %s, but does not declare which resources it reconciles.", r.Instance, l.ring)
	default:
		p.Message = fmt.Sprintf("%s leads %s and reconciles all objects. The operator is not sharded.", r.Instance, l.ring)
	}
	if shard := object.Labels[shardingv1alpha1.LabelShard(l.ring)]; shard != "" {
		p.Message += fmt.Sprintf(" Its shard label, %s, is left over: a leader ignores it.", shard)
	}
	p.Message += deletion(object, now)
	p.Agrees = p.agrees()
	return p
}

// deletion explains an object that is being deleted.
func deletion(object *metav1.PartialObjectMetadata, now time.Time) string {
	if object.DeletionTimestamp == nil {
		return ""
	}
	message := fmt.Sprintf(" It was deleted %s ago", duration.HumanDuration(max(0, now.Sub(object.DeletionTimestamp.Time))))
	if len(object.Finalizers) > 0 {
		message += " and waits for its finalizers: " + strings.Join(object.Finalizers, ", ")
	}
	return message + "."
}

// leaderWarnings returns warnings about leaders that reconcile the objects of a ring.
func (w *clusterState) leaderWarnings(ring *Ring, now time.Time) []string {
	var warnings []string
	for _, l := range w.leaders {
		switch {
		case l.ring != ring.Name || !l.active(now):
		case ring.Members == 0:
			warnings = append(warnings, l.report(now).Instance+" leads and reconciles all objects: the ring has no shards because the controller runs in the mode lead")
		default:
			warnings = append(warnings, fmt.Sprintf("%s leads with the Lease %s/%s and reconciles all objects, while shards reconcile them, too: "+
				"stop all instances of one of the two modes", l.report(now).Instance, l.lease.Namespace, l.lease.Name))
		}
	}
	return warnings
}
