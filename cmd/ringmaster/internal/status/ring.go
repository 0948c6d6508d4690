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

// facts are all that was read of a ring.
type facts struct {
	*declaration
	// spread is what it spreads, and unknown what the API server does not know of that.
	spread  *catalog.Ring
	unknown []schema.GroupResource
	// selects tells whether the ring spreads the objects of a namespace.
	selects func(namespace string) bool
	// tallies are what was counted of each of spread's resources.
	tallies []*tally
	// warnings are what was noticed while reading.
	warnings []string
}

// report tells how the ring is doing.
func (f *facts) report(now time.Time) Ring {
	c, sharders := f.cast(now), f.whoShards(now)
	r := Ring{Name: f.name, Declared: f.ring != nil, Sharders: sharders}
	r.Ready, r.Conditions = f.conditions(c, sharders)
	if !f.blind {
		r.Members, r.Available = len(c.members.Members()), len(c.members.Shards())
	}
	f.count(&r, c)
	r.Balance = f.balance(c)
	r.Warnings = slices.Concat(f.warnings, f.ringWarnings(), f.sharderWarnings(sharders), shardWarnings(c, now))
	return r
}

// conditions are those of the ControllerRing, or what follows from the Leases.
func (f *facts) conditions(c *cast, sharders []Sharder) (ready Condition, others []Condition) {
	ready = Condition{Type: shardingv1alpha1.ConditionReady, Status: metav1.ConditionUnknown}
	if f.ring == nil {
		switch {
		case f.blind:
		case len(c.members.Shards()) == 0:
			ready.Status, ready.Reason = metav1.ConditionFalse, shardingv1alpha1.ReasonNoShards
			ready.Message = "No shard is available: start the controller."
		case !atWork(sharders, ""):
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "NoSharder", "Nobody assigns objects."
		default:
			ready.Status, ready.Reason = metav1.ConditionTrue, shardingv1alpha1.ReasonReady
			ready.Message = fmt.Sprintf("Objects are spread over %s.", prose.Count(len(c.members.Shards()), "shard"))
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

// count fills in kinds, shards and totals.
func (f *facts) count(r *Ring, c *cast) {
	shards := maps.Clone(c.shards)
	for i, t := range f.tallies {
		resource := &f.spread.Resources[i]
		kind := Kind{Resource: resource.Resource.GroupResource().String(), Controlled: !resource.Main()}
		if t.err != nil {
			kind.Error = t.err.Error()
			r.Kinds = append(r.Kinds, kind)
			continue
		}
		kind.Counts = t.counts(c)
		r.Kinds = append(r.Kinds, kind)
		r.Total.add(kind.Counts)
		for name, n := range t.shards {
			if name == "" {
				continue
			}
			if shards[name] == nil {
				shards[name] = c.shard(name)
			}
			shards[name].has(kind.Resource, n, t.draining[name])
		}
	}
	for _, resource := range f.unknown {
		r.Kinds = append(r.Kinds, Kind{Resource: resource.String(), Error: "the API server does not know it"})
	}
	r.Shards = list(shards, c.refused)
}

// has notes what a shard has.
func (s *Shard) has(resource string, objects, draining int) {
	if s.Objects == nil {
		s.Objects = map[string]int{}
	}
	s.Objects[resource] += objects
	s.Total += objects
	s.Draining += draining
}

// list is all shards in the order of their names, those that are only named last.
func list(shards map[string]*Shard, refused []*Shard) []Shard {
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

// balance is how many main objects the fullest available shard has, divided by the mean.
func (f *facts) balance(c *cast) float64 {
	most, sum, each := 0, 0, map[string]int{}
	for i, t := range f.tallies {
		if !f.spread.Resources[i].Main() {
			continue
		}
		for _, shard := range c.members.Shards() {
			each[shard] += t.shards[shard]
			sum += t.shards[shard]
			most = max(most, each[shard])
		}
	}
	if sum == 0 {
		return 0
	}
	const hundredths = 100
	ratio := float64(most) * float64(len(c.members.Shards())) / float64(sum)
	return float64(int(ratio*hundredths+0.5)) / hundredths
}

// ringWarnings say what is wrong with the ControllerRing.
func (f *facts) ringWarnings() []string {
	var warnings []string
	if len(f.unknown) > 0 {
		warnings = append(warnings, "the API server does not know "+prose.List(f.unknown))
	}
	if f.ring == nil {
		return warnings
	}
	switch {
	case f.ring.DeletionTimestamp != nil:
		warnings = append(warnings, "the ControllerRing is being deleted, and sharders have forgotten it")
	case len(f.ring.Status.Conditions) > 0 && f.ring.Status.ObservedGeneration < f.ring.Generation:
		warnings = append(warnings, "the sharder has not seen the last change of the ControllerRing yet")
	}
	return warnings
}

// shardWarnings say which Leases are not taken, and which shards seem dead although nobody has noticed.
func shardWarnings(c *cast, now time.Time) []string {
	var warnings []string
	for _, shard := range c.refused {
		warnings = append(warnings, fmt.Sprintf("the Lease %s/%s is no shard: %s", shard.Namespace, shard.Name, shard.Refused))
	}
	for _, shard := range list(c.shards, nil) {
		// The sharder takes a Lease over after twice its duration at most.
		if silent := shard.silence(now); silent > 0 && now.Sub(shard.Renewed.Time) > 2*shard.Expires.Sub(shard.Renewed.Time) {
			warnings = append(warnings, fmt.Sprintf("%s has not renewed its Lease for %s, by this computer's clock, and no sharder has taken it over: nobody works on its objects",
				shard.Name, duration.HumanDuration(silent)))
		}
	}
	return warnings
}

// condition finds a condition of the ring that says that something is wrong.
func (f *facts) condition(kind string) string {
	if f.ring == nil {
		return ""
	}
	if found := meta.FindStatusCondition(f.ring.Status.Conditions, kind); found != nil && found.Status == metav1.ConditionFalse {
		return found.Message
	}
	return ""
}
