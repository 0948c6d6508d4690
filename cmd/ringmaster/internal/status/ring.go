package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// ringState is all that was read about a ring.
type ringState struct {
	*declaration
	// kinds are the resources that are sharded.
	kinds []Kind
	// warnings are problems found while reading.
	warnings []string

	// The following is set after resolve.

	// spread are the resources that are sharded, as the API server knows them, and unknown those that it does not.
	spread  *catalog.Ring
	unknown []schema.GroupResource
	// selects reports whether the ring selects a namespace.
	selects func(namespace string) bool
	// counters count the objects of each of spread's resources. They are nil if objects are not counted.
	counters []*objectCounter
}

// report returns the state of the ring.
func (f *ringState) report(now time.Time) Ring {
	shards, sharders := f.shardSet(now), f.activeSharders(now)
	r := Ring{Name: f.name, Declared: f.ring != nil, Sharders: sharders}
	r.Ready, r.Conditions = f.conditions(shards, sharders)
	if !f.leasesUnreadable {
		r.Members, r.Available = len(shards.members.Members()), len(shards.members.Shards())
	}
	if f.counters != nil {
		f.addCounts(&r, shards)
	} else {
		f.addPublished(&r, shards)
	}
	r.Imbalance = imbalance(&r)
	r.Warnings = slices.Concat(f.warnings, f.ringWarnings(), f.sharderWarnings(sharders), shardWarnings(shards, now))
	r.Problems = f.problems(&r, now)
	return r
}

// reasonNoSharder is the reason of the condition Ready that is derived from Leases if no sharder is active.
const reasonNoSharder = "NoSharder"

// conditions returns the conditions of the ControllerRing, or those that are derived from the Leases.
func (f *ringState) conditions(shards *shardSet, sharders []Sharder) (ready Condition, others []Condition) {
	ready = Condition{Type: shardingv1alpha1.ConditionReady, Status: metav1.ConditionUnknown}
	if f.ring == nil {
		switch {
		case f.leasesUnreadable:
		case len(shards.members.Shards()) == 0:
			ready.Status, ready.Reason = metav1.ConditionFalse, shardingv1alpha1.ReasonNoShards
			ready.Message = "No shard is available: start the controller."
		case f.ringsUnreadable && !anyActive(sharders, ""): // it may have a ControllerRing
		case !anyActive(sharders, ""):
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasonNoSharder, "No sharder is active."
		default:
			ready.Status, ready.Reason = metav1.ConditionTrue, shardingv1alpha1.ReasonReady
			ready.Message = fmt.Sprintf("New objects are assigned; %s available.", prose.Are(len(shards.members.Shards()), "shard"))
		}
		return ready, nil
	}
	for i := range f.ring.Status.Conditions {
		found := &f.ring.Status.Conditions[i]
		condition := Condition{Type: found.Type, Status: found.Status, Reason: found.Reason, Message: found.Message, Since: &found.LastTransitionTime}
		if found.Type == shardingv1alpha1.ConditionReady {
			ready = condition
		} else {
			others = append(others, condition)
		}
	}
	return ready, others
}

// addCounts adds kinds, shards and totals as they were counted.
func (f *ringState) addCounts(r *Ring, c *shardSet) {
	shards := maps.Clone(c.shards)
	r.Total = &Counts{}
	for i, counter := range f.counters {
		resource := &f.spread.Resources[i]
		kind := Kind{Resource: resource.Resource.GroupResource().String(), Controlled: !resource.Main()}
		if counter.err != nil {
			kind.Error = counter.err.Error()
			r.Kinds = append(r.Kinds, kind)
			continue
		}
		kind.Counts = counter.counts(c)
		r.Kinds = append(r.Kinds, kind)
		r.Total.add(kind.Counts)
		for name, n := range counter.shards {
			if name == "" {
				continue
			}
			if shards[name] == nil {
				shards[name] = c.shard(name)
			}
			shards[name].addObjects(kind.Resource, n)
			shards[name].Draining += counter.draining[name]
		}
	}
	for _, resource := range f.unknown {
		r.Kinds = append(r.Kinds, Kind{Resource: resource.String(), Error: "the API server does not serve it"})
	}
	if slices.ContainsFunc(r.Kinds, func(k Kind) bool { return k.Counts != nil }) {
		for _, shard := range shards {
			if shard.Total == nil {
				shard.Total = new(int)
			}
		}
	}
	r.Objects = &r.Total.Objects
	r.Shards = sorted(shards, c.refused)
}

// addPublished adds kinds and shards with the numbers of objects that the members publish on their Leases.
func (f *ringState) addPublished(r *Ring, c *shardSet) {
	r.Kinds = f.kinds
	sum, known := 0, r.Members > 0 // without a member, no shard publishes how many objects are orphaned
	for _, shard := range c.shards {
		if !shard.Member { // its last published numbers are out of date
			continue
		}
		shard.addPublished(f.kinds)
		if shard.Total == nil {
			known = false
			continue
		}
		sum += *shard.Total
	}
	if known {
		r.Objects = &sum
	}
	r.Shards = sorted(c.shards, c.refused)
}

// addPublished adds the numbers of objects that the shard publishes. The total is known if no kind is missing.
func (s *Shard) addPublished(kinds []Kind) {
	missing := s.published == nil
	for i := range kinds {
		resource := kinds[i].Resource
		if number, has := s.published[resource]; has {
			s.addObjects(resource, number)
		} else {
			missing = true
		}
	}
	if missing {
		s.Total = nil
	}
}

// objectsOf returns the number of objects of a kind that the shard owns, if it is known.
func (s *Shard) objectsOf(resource string) (number int, known bool) {
	number, known = s.Objects[resource]
	return number, known || s.Total != nil // a shard that was counted has no entry for 0
}

// addObjects adds objects that a shard owns.
func (s *Shard) addObjects(resource string, objects int) {
	if s.Objects == nil {
		s.Objects = map[string]int{}
	}
	if s.Total == nil {
		s.Total = new(int)
	}
	s.Objects[resource] += objects
	*s.Total += objects
}

// available reports whether the shard is assigned objects.
func (s *Shard) available() bool { return s.Member && !s.Leaving && !s.Cordoned }

// sorted returns all shards by name, those without a Lease last.
func sorted(shards map[string]*Shard, refused []*Shard) []Shard {
	var all []Shard
	for _, shard := range shards {
		if !slices.Contains(refused, shard) {
			all = append(all, *shard)
		}
	}
	for _, shard := range refused {
		all = append(all, *shard)
	}
	slices.SortFunc(all, func(a, b Shard) int {
		return cmp.Or(compareBools(a.Namespace == "", b.Namespace == ""), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	return all
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// imbalance returns the highest number of main objects of an available shard, divided by the mean, or 0.
func imbalance(r *Ring) float64 {
	highest, sum := 0, 0
	for i := range r.Shards {
		shard := &r.Shards[i]
		if !shard.available() {
			continue
		}
		main := 0
		for k := range r.Kinds {
			if r.Kinds[k].Controlled {
				continue
			}
			number, known := shard.objectsOf(r.Kinds[k].Resource)
			if !known {
				return 0
			}
			main += number
		}
		sum += main
		highest = max(highest, main)
	}
	if sum == 0 {
		return 0
	}
	const hundredths = 100
	ratio := float64(highest) * float64(r.Available) / float64(sum)
	return float64(int(ratio*hundredths+0.5)) / hundredths
}

// ringWarnings returns the problems of the ControllerRing.
func (f *ringState) ringWarnings() []string {
	var warnings []string
	if len(f.unknown) > 0 {
		warnings = append(warnings, "the API server does not serve "+prose.List(f.unknown))
	}
	if f.ring == nil {
		return warnings
	}
	switch {
	case f.ring.DeletionTimestamp != nil:
		warnings = append(warnings, "the ControllerRing is being deleted: sharders ignore it")
	case len(f.ring.Status.Conditions) > 0 && f.ring.Status.ObservedGeneration < f.ring.Generation:
		warnings = append(warnings, "the sharder has not observed the last change of the ControllerRing yet")
	}
	return warnings
}

// notTakenOver reports whether a member is dead by the clock of this computer, and no sharder has noticed. A sharder
// takes a Lease over after twice its duration at most.
func (s *Shard) notTakenOver(now time.Time) bool {
	return s.unrenewedFor(now) > 0 && now.Sub(s.Renewed.Time) > 2*s.Expires.Sub(s.Renewed.Time)
}

// shardWarnings returns which Leases are refused, and which members seem dead although no sharder has noticed.
func shardWarnings(c *shardSet, now time.Time) []string {
	var warnings []string
	for _, shard := range c.refused {
		warnings = append(warnings, fmt.Sprintf("the Lease %s/%s is refused: %s", shard.Namespace, shard.Name, shard.Refused))
	}
	for _, shard := range sorted(c.shards, nil) {
		if shard.notTakenOver(now) {
			warnings = append(warnings, fmt.Sprintf("%s has not renewed its Lease for %s, by the clock of this computer, and no sharder has taken it over: "+
				"its objects are not reconciled. Check the shard and the sharder", shard.Name, duration.HumanDuration(shard.unrenewedFor(now))))
		}
	}
	return warnings
}

// condition returns the message of a condition of the ring that is False, or "".
func (f *ringState) condition(kind string) string {
	if f.ring == nil {
		return ""
	}
	if found := meta.FindStatusCondition(f.ring.Status.Conditions, kind); found != nil && found.Status == metav1.ConditionFalse {
		return found.Message
	}
	return ""
}
