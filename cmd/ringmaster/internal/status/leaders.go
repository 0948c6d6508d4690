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

// leadership is an operator of which one instance works on everything, as the Lease of its election tells.
type leadership struct {
	ring  string
	lease *coordinationv1.Lease
}

// leaderships finds them, in the order of their names.
func leaderships(found []coordinationv1.Lease) []leadership {
	var all []leadership
	for i := range found {
		if ring := found[i].Labels[shardingv1alpha1.LabelLeader]; ring != "" { // else it was one in another mode
			all = append(all, leadership{ring, &found[i]})
		}
	}
	slices.SortFunc(all, func(a, b leadership) int {
		return cmp.Or(cmp.Compare(a.ring, b.ring), cmp.Compare(a.lease.Namespace, b.lease.Namespace), cmp.Compare(a.lease.Name, b.lease.Name))
	})
	return all
}

// report tells who leads.
func (l leadership) report(now time.Time) Leader {
	held := leader("", l.lease, now)
	r := Leader{
		Name: l.ring, Namespace: l.lease.Namespace, Lease: l.lease.Name,
		Holder: held.Holder, Since: held.Since, Silent: held.Silent,
		Renewed: seconds(l.lease.Spec.RenewTime), Transitions: ptr.Deref(l.lease.Spec.LeaseTransitions, 0),
	}
	r.Instance, _, _ = strings.Cut(held.Holder, "_") // what follows tells two processes of one name apart
	if r.Renewed != nil {
		r.Expires = &metav1.Time{Time: r.Renewed.Add(durationOf(l.lease))}
	}
	if r.Holder == "" {
		r.Since = r.Renewed // who gives a Lease up renews it a last time
	}
	r.Resources = namesOf(l.resources())
	return r
}

// resources are what the leader says that it works on.
func (l leadership) resources() []shardingv1alpha1.RingResource {
	var said []shardingv1alpha1.RingResource
	_ = json.Unmarshal([]byte(l.lease.Annotations[shardingv1alpha1.AnnotationResources]), &said) // or it is not known
	return said
}

// live tells whether somebody leads, by this computer's clock.
func (l leadership) live(now time.Time) bool { return !leader("", l.lease, now).Silent }

// past tells whether a Lease is only left over from when the operator led: by now it is sharded.
func (l leadership) past(rings []*facts, now time.Time) bool {
	return !l.live(now) && slices.ContainsFunc(rings, func(f *facts) bool { return f.name == l.ring })
}

// instead tells whether one leads what was a ring before: nobody is in that any more.
func (w *world) instead(f *facts, now time.Time) bool {
	return !f.blind && len(f.cast(now).members.Members()) == 0 &&
		slices.ContainsFunc(w.leaders, func(l leadership) bool { return l.ring == f.name && l.live(now) })
}

// State is what people see: that somebody leads, has not been heard of for a while, or that nobody does.
func (l *Leader) State() string {
	switch {
	case l.Instance == "":
		return "nobody leads"
	case l.Silent:
		return stateSilent
	}
	return stateLeads
}

// What a leader is seen as.
const stateLeads, stateSilent = "leads", "silent"

// leading are those who lead operators that work on a resource. Only where nobody else does, they are also those of
// whom that is not known.
func (w *world) leading(resource schema.GroupResource, spread bool, now time.Time) []leadership {
	var sure, maybe []leadership
	for _, l := range w.leaders {
		said := namesOf(l.resources())
		switch {
		case l.past(w.rings, now):
		case slices.Contains(said, resource.String()):
			sure = append(sure, l)
		case len(said) == 0:
			maybe = append(maybe, l)
		}
	}
	if len(sure) == 0 && !spread {
		return maybe
	}
	return sure
}

// place says who has an object where one instance has everything.
func (l leadership) place(object *metav1.PartialObjectMetadata, now time.Time) Place {
	r := l.report(now)
	p := Place{
		Ring: l.ring, Held: Held{Shard: r.Instance, State: r.State(), Since: r.Since, SinceExact: true},
		Desired: r.Instance, Reason: Led,
	}
	switch {
	case r.Instance == "":
		p.Reason, p.Message = NoLeader, fmt.Sprintf("Nobody works on it: nobody leads %s. Start the controller.", l.ring)
	case r.Silent:
		p.Reason = LeaderSilent
		p.Message = fmt.Sprintf("%s leads %s, but has not renewed its Lease for %s, by this computer's clock. Nobody works on it until another one leads.",
			r.Instance, l.ring, age(r.Renewed, now))
	case len(r.Resources) == 0:
		p.Reason = NotKnown
		p.Message = fmt.Sprintf("No ring spreads it. %s leads %s and has everything that it works on, but whether that is this is not known.", r.Instance, l.ring)
	default:
		p.Message = fmt.Sprintf("%s leads %s, and has everything that it works on. Nothing is spread.", r.Instance, l.ring)
	}
	if shard := object.Labels[shardingv1alpha1.LabelShard(l.ring)]; shard != "" {
		p.Message += fmt.Sprintf(" Its label, which names the shard %s, is left over: a leader does not heed it.", shard)
	}
	p.Message += deletion(object, now)
	p.Agrees = p.agrees()
	return p
}

// deletion tells of an object that was deleted and is still there.
func deletion(object *metav1.PartialObjectMetadata, now time.Time) string {
	if object.DeletionTimestamp == nil {
		return ""
	}
	words := fmt.Sprintf(" It was deleted %s ago", duration.HumanDuration(max(0, now.Sub(object.DeletionTimestamp.Time))))
	if len(object.Finalizers) > 0 {
		words += " and waits for its finalizers: " + strings.Join(object.Finalizers, ", ")
	}
	return words + "."
}

// leaderWarnings say which leaders work on the objects of a ring.
func (w *world) leaderWarnings(ring *Ring, now time.Time) []string {
	var warnings []string
	for _, l := range w.leaders {
		switch {
		case l.ring != ring.Name || !l.live(now):
		case ring.Members == 0:
			warnings = append(warnings, l.report(now).Instance+" leads it, and works on all objects: there are no shards because the controller runs in the mode lead")
		default:
			warnings = append(warnings, fmt.Sprintf("%s leads it, with the Lease %s/%s, and works on all objects, while shards do too: "+
				"let all instances of one mode end", l.report(now).Instance, l.lease.Namespace, l.lease.Name))
		}
	}
	return warnings
}
