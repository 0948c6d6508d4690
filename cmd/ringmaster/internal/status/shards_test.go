package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

func TestStates(t *testing.T) {
	const sharder = shardingv1alpha1.IdentityShardLeaseController
	for name, test := range map[string]struct {
		lease  *coordinationv1.Lease
		state  string
		member bool
	}{
		"as the sharder shows it":     {lease("a"), "ready", true},
		"late":                        {lease("a", shows("expired")), "expired", true},
		"without a state":             {lease("a", shows("")), "ready", true},
		"with an unknown state":       {lease("a", shows("happy")), "ready", true},
		"leaving":                     {lease("a", leaves), "leaving", true},
		"taken over":                  {lease("a", heldBy(sharder), shows("dead")), "dead", false},
		"to be deleted":               {lease("a", heldBy(sharder), shows("orphaned")), "orphaned", false},
		"released, state not updated": {lease("a", heldBy("")), "left", false},
		"released while leaving":      {lease("a", heldBy(""), leaves), "left", false},
		"back, state not updated":     {lease("a", shows("dead")), "ready", true},
		"without a spec":              {lease("a", func(l *coordinationv1.Lease) { l.Spec = coordinationv1.LeaseSpec{} }), "left", false},
		"without times":               {lease("a", func(l *coordinationv1.Lease) { l.Spec.RenewTime, l.Spec.AcquireTime = nil, nil }), "ready", true},
		"without renewal for long":    {lease("a", renewed(time.Hour)), "ready", true},
	} {
		t.Run(name, func(t *testing.T) {
			shard := ringStateOf(nil, test.lease).shardSet(now).shard("a")
			if shard.displayState() != test.state || shard.Member != test.member {
				t.Errorf("%s, member: %t; want %s, %t", shard.displayState(), shard.Member, test.state, test.member)
			}
		})
	}
}

// TestCordonedIsShown has a shard from a namespace that the ring has ceased to accept.
func TestCordonedIsShown(t *testing.T) {
	ring := controllerRing()
	ring.Spec.ShardNamespaces, ring.Status.ShardNamespaces = []string{"system"}, []string{"*"}
	c := (&declaration{name: "ring", ring: ring, shards: []*coordinationv1.Lease{lease("a"), lease("b", in("other"))}}).shardSet(now)
	if shard := c.shard("b"); shard.displayState() != "cordoned" || !shard.Member || !shard.Cordoned || !slices.Equal(c.members.Shards(), []string{"a"}) {
		t.Errorf("b is %s: %+v", shard.displayState(), shard)
	}
}

// TestRefusedLeasesHaveReasons has Leases that the ring refuses, with the reason.
func TestRefusedLeasesHaveReasons(t *testing.T) {
	picky := controllerRing()
	picky.Spec.ShardNamespaces = []string{"system"}
	former := picky.DeepCopy()
	former.Status.ShardNamespaces = []string{"system", "other"}
	long := strings.Repeat("a", 64)
	for name, test := range map[string]struct {
		declaration *declaration
		members     []string
		refused     []string
	}{
		"accepted":           {&declaration{shards: []*coordinationv1.Lease{lease("a"), lease("b", in("other"))}}, []string{"a", "b"}, nil},
		"other namespace":    {&declaration{ring: picky, shards: []*coordinationv1.Lease{lease("a"), lease("b", in("other"))}}, []string{"a"}, []string{"other/b: the ring accepts shards only from the namespaces system"}},
		"in-process sharder": {&declaration{shards: []*coordinationv1.Lease{lease("a"), lease("b", in("other"))}, sharders: []*coordinationv1.Lease{elected("a")}}, []string{"a"}, []string{"other/b: the ring accepts shards only from the namespaces system"}},
		"still members": {
			&declaration{ring: former, shards: []*coordinationv1.Lease{lease("a"), lease("b", in("other")), lease("c", in("third"))}},
			[]string{"a", "b"},
			[]string{"third/c: the ring accepts shards only from the namespaces system"},
		},
		"a long name":         {&declaration{shards: []*coordinationv1.Lease{lease("b"), lease(long)}}, []string{"b"}, []string{"system/" + long + ": its name has more than 63 characters"}},
		"the same name twice": {&declaration{shards: []*coordinationv1.Lease{lease("a"), lease("a", in("other"))}}, []string{"a"}, []string{"system/a: an older shard in the namespace other has the same name"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.declaration.name = "ring"
			c := test.declaration.shardSet(now)
			var refused []string
			for _, shard := range c.refused {
				refused = append(refused, fmt.Sprintf("%s/%s: %s", shard.Namespace, shard.Name, shard.Refused))
			}
			if diff := cmp.Diff(test.members, slices.Sorted(maps.Keys(c.shards))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.members, c.members.Members()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.refused, refused); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSharders(t *testing.T) {
	ring, notObserved := controllerRing(isReady), controllerRing()
	notSole := controllerRing(isReady, conditionFor(shardingv1alpha1.ConditionSole, shardingv1alpha1.ReasonTwoSharders))
	replicas := lease("sharder", heldBy("sharder-0"))
	for name, test := range map[string]struct {
		declaration declaration
		want        string
		warnings    []string
	}{
		"external":                {declaration{ring: ring, election: replicas}, "external: sharder-0", nil},
		"external, elsewhere":     {declaration{ring: ring}, "external", nil},
		"external, not renewing":  {declaration{ring: ring, election: lease("sharder", heldBy("sharder-0"), renewed(time.Minute))}, "external: sharder-0 (not active)", []string{"no sharder is active, by the clock of this computer"}},
		"external, no Lease":      {declaration{ring: ring, electionMissing: true}, "external (no Lease)", []string{"the sharder has no Lease"}},
		"external, released":      {declaration{ring: ring, election: lease("sharder", heldBy(""))}, "external (not active)", []string{"no sharder is active"}},
		"in-process":              {declaration{sharders: []*coordinationv1.Lease{elected("a_1")}}, "in-process: a_1", nil},
		"in-process, with a ring": {declaration{ring: notObserved, sharders: []*coordinationv1.Lease{elected("a_1")}}, "in-process: a_1", nil},
		"in-process, late":        {declaration{sharders: []*coordinationv1.Lease{elected("a_1", renewed(20*time.Second))}}, "in-process: a_1", nil},
		"both":                    {declaration{ring: ring, election: replicas, sharders: []*coordinationv1.Lease{elected("a_1")}}, "external: sharder-0, in-process: a_1", []string{"two sharders are active: the external one and an in-process one. This is safe, but does the work twice: run the instances in mode shard"}},
		"both, as conditions say": {declaration{ring: notSole, election: replicas, sharders: []*coordinationv1.Lease{elected("a_1")}}, "external: sharder-0, in-process: a_1", nil},
		"both, one not active":    {declaration{ring: ring, election: replicas, sharders: []*coordinationv1.Lease{elected("a_1", renewed(time.Hour))}}, "external: sharder-0, in-process: a_1 (not active)", nil},
		"none, no ring":           {declaration{sharders: []*coordinationv1.Lease{elected("")}}, "none", []string{"no sharder is active: new objects are not assigned, and the objects of dead shards are not moved. Start the controller in the mode in-process"}},
		"none, ring not observed": {declaration{ring: notObserved}, "none", []string{"no sharder has observed the ControllerRing"}},
		"unreadable Leases":       {declaration{ring: notObserved, leasesUnreadable: true}, "none", nil},
	} {
		t.Run(name, func(t *testing.T) {
			sharders := test.declaration.activeSharders(now)
			if got := sharderNames(sharders, true); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			expectWords(t, test.declaration.sharderWarnings(sharders), test.warnings)
		})
	}
}

// TestTimes are the times that a Lease shows.
func TestTimes(t *testing.T) {
	const sharder = shardingv1alpha1.IdentityShardLeaseController
	for name, test := range map[string]struct {
		lease          *coordinationv1.Lease
		since, expires *metav1.Time
		silence        time.Duration
	}{
		"active":     {lease("a"), before(time.Hour), before(-14 * time.Second), 0},
		"late":       {lease("a", renewed(11*time.Second)), before(time.Hour), before(-4 * time.Second), 11 * time.Second},
		"released":   {lease("a", heldBy(""), renewed(time.Minute)), before(time.Minute), before(45 * time.Second), 0},
		"taken over": {lease("a", heldBy(sharder), renewed(time.Minute)), before(time.Minute), before(45 * time.Second), 0},
	} {
		t.Run(name, func(t *testing.T) {
			shard := ringStateOf(nil, test.lease).shardSet(now).shard("a")
			if !shard.Since.Equal(test.since) || !shard.Expires.Equal(test.expires) || shard.unrenewedFor(now) != test.silence {
				t.Errorf("since %v, expires %v, silent for %s", shard.Since, shard.Expires, shard.unrenewedFor(now))
			}
		})
	}
}
