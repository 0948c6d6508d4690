package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

// belongsTo is the name of a website that the ring of these shards gives to one of them.
func belongsTo(shard string, shards ...string) string {
	r := ring.New(shards)
	for i := 0; ; i++ {
		name := fmt.Sprintf("website-%d", i)
		if r.Owner(assignment.Key(websiteKind.GroupKind, "project", name)) == shard {
			return name
		}
	}
}

// ofA is what belongs to a if there are a and b.
var ofA = belongsTo("a", "a", "b")

// inRing is a ring with an external sharder at work.
func inRing(shards ...*coordinationv1.Lease) *facts {
	return factsOf(controllerRing(isReady), shards...)
}

func TestMainObjects(t *testing.T) {
	const sharder = shardingv1alpha1.IdentityShardLeaseController
	drain := shardingv1alpha1.LabelDrain("ring")
	both := func() *facts { return inRing(lease("a"), lease("b")) }
	asked := func(ago time.Duration) *metav1.PartialObjectMetadata {
		return written(website(ofA, "b", "a"), "sharder", ago, byUs(drain))
	}
	notReady := factsOf(controllerRing(condition("Ready", metav1.ConditionFalse, "The sharder may not.")), lease("a"), lease("b"))
	refused := factsOf(controllerRing(isReady, condition("Assigned", metav1.ConditionFalse, "A policy says no.")), lease("a"), lease("b"))
	picky := inRing(lease("a"), lease("c", in("other")))
	picky.ring.Spec.ShardNamespaces = []string{"system"}
	blind := both()
	blind.blind, blind.shards = true, nil
	for name, test := range map[string]struct {
		ring    *facts
		object  *metav1.PartialObjectMetadata
		reason  Reason
		message []string
	}{
		"settled":                  {both(), website(ofA, "a"), Settled, []string{"It is where the ring says."}},
		"silent":                   {inRing(lease("a", renewed(12*time.Second)), lease("b")), website(ofA, "a"), ShardSilent, []string{"a has not renewed its Lease for 12s", "expires in 3s", "b gets the object"}},
		"expired":                  {inRing(lease("a", renewed(17*time.Second), shows("expired")), lease("b")), website(ofA, "a"), ShardSilent, []string{"expired 2s ago", "b gets the object"}},
		"the only":                 {inRing(lease("a", renewed(17*time.Second))), website(ofA, "a"), ShardSilent, []string{"no other shard"}},
		"unattended":               {factsOf(nil, lease("a", renewed(time.Hour)), lease("b")), website(ofA, "a"), ShardSilent, []string{"no sharder is at work"}},
		"new":                      {both(), website(ofA), Unassigned, []string{"a is to get it", "within half a minute"}},
		"new, nobody":              {factsOf(nil, lease("a"), lease("b")), website(ofA), Unassigned, []string{"But no sharder is at work"}},
		"new, not ready":           {notReady, website(ofA), Unassigned, []string{"But the ring is not ready: The sharder may not."}},
		"new, against a policy":    {refused, website(ofA), Unassigned, []string{"The ring says: A policy says no."}},
		"new, no shards":           {inRing(), website(ofA), NoShards, []string{"the ring has no live shard", "Start the controller"}},
		"of nobody":                {both(), website(ofA, "x"), ShardGone, []string{"names the shard x, which has no Lease", "a is to get it"}},
		"of the last":              {inRing(lease("a", heldBy(""))), website(ofA, "a"), NoShards, []string{"Its shard a has left the ring 1s ago.", "no other live shard"}},
		"of one that left":         {inRing(lease("a", heldBy(""), renewed(time.Minute)), lease("b")), website(ofA, "a"), ShardDead, []string{"a has left the ring 60s ago", "b is to get it"}},
		"of a dead one":            {inRing(lease("a", heldBy(sharder), renewed(time.Minute)), lease("b")), website(ofA, "a"), ShardDead, []string{"a is dead: the sharder took its Lease over 60s ago", "b is to get it"}},
		"of one that was replaced": {inRing(lease("a", heldBy("z")), lease("b")), website(ofA, "a"), ShardDead, []string{"held by z and not by the shard"}},
		"of a refused one":         {picky, website(ofA, "c"), ShardRefused, []string{"c, which is no shard of the ring: the ring takes shards only from the namespaces system"}},
		"of a leaving one":         {inRing(lease("a", leaves), lease("b")), website(ofA, "a"), ShardLeaving, []string{"a is leaving, and hands it over by itself, to b."}},
		"of one that leaves alone": {inRing(lease("a", leaves)), website(ofA, "a"), ShardLeaving, []string{"there is no other shard"}},
		"on its way":               {both(), asked(12 * time.Second), Draining, []string{"b was asked 12s ago to let it go", "then a gets it"}},
		"on its way for long":      {both(), asked(10 * time.Minute), Draining, []string{"b was asked 10m ago", "look at the logs of b"}},
		"asked by others":          {both(), website(ofA, "b", "true"), Draining, []string{"b was asked to let it go, and has not yet; then a gets it."}},
		"asked for another":        {inRing(lease("a"), lease("b"), lease("c")), website(belongsTo("a", "a", "b", "c"), "b", "c"), Draining, []string{"then a gets it", "The request still names c."}},
		"to be asked":              {both(), website(ofA, "b"), DrainDue, []string{"b has it, and the ring says a", "next look at all objects"}},
		"to stay after all":        {both(), website(ofA, "a", "b"), UndrainDue, []string{"may stay"}},
		"nobody knows":             {blind, website(ofA, "a"), NotKnown, []string{"Leases cannot be read"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &subject{ring: test.ring, resource: &websites, object: test.object, selected: true}
			expectPlace(t, s.place(now), test.reason, test.message)
		})
	}
}

func expectPlace(t *testing.T, got Place, reason Reason, message []string) {
	t.Helper()
	if got.Reason != reason {
		t.Errorf("%s, want %s: %s", got.Reason, reason, got.Message)
	}
	for _, part := range message {
		if !strings.Contains(got.Message, part) {
			t.Errorf("%q does not say %q", got.Message, part)
		}
	}
	well := map[Reason]bool{Settled: true, WithController: true, NotSpread: got.Shard == "", NotSelected: got.Shard == ""}
	if got.Agrees != well[reason] {
		t.Errorf("agrees: %t", got.Agrees)
	}
	if got.Reason == Settled && (got.Shard == "" || got.Shard != got.Desired || got.Draining != nil) {
		t.Errorf("it is not settled: %+v", got)
	}
}

func TestNotSelected(t *testing.T) {
	f := inRing(lease("a"))
	f.spread.Namespaces = labels.SelectorFromSet(labels.Set{"project": "true"})
	s := &subject{ring: f, resource: &websites, object: website(ofA)}
	expectPlace(t, s.place(now), NotSelected, []string{"namespace project: by default, project=true."})
	f.ring.Spec.NamespaceSelector = &metav1.LabelSelector{}
	s.object = website(ofA, "a")
	p := s.place(now)
	expectPlace(t, p, NotSelected, []string{"its namespaceSelector is project=true.", "Its label is left over; a works on it"})
	if p.Desired != "" {
		t.Errorf("the ring says %s", p.Desired)
	}
}

func TestControlledObjects(t *testing.T) {
	all := func() *facts { return inRing(lease("a"), lease("b"), lease("l", leaves)) }
	parent := func(shard ...string) *relative {
		return &relative{Reference: Reference{"websites.example.com", "project", ofA}, object: website(ofA, shard...)}
	}
	for name, test := range map[string]struct {
		ring       *facts
		object     *metav1.PartialObjectMetadata
		controller *relative
		reason     Reason
		message    string
	}{
		"with its controller":              {all(), deployment(ofA, "a"), parent("a"), Settled, "It is where the ring says."},
		"with one that is to move":         {all(), deployment(ofA, "b"), parent("b", "a"), WithController, "moves when that does. The ring says a for both."},
		"ahead":                            {all(), deployment(ofA, "a"), parent("b", "a"), Settled, "before its controller websites.example.com/" + ofA},
		"left behind":                      {all(), deployment(ofA, "b"), parent("a"), MoveDue, "is with a already, and it is to follow."},
		"without a label":                  {all(), deployment(ofA), parent("b"), Unassigned, "that of its controller"},
		"without a label or shards":        {inRing(), deployment(ofA), parent(), NoShards, "no live shard"},
		"of a dead shard":                  {all(), deployment(ofA, "x"), parent("b"), ShardGone, "b is to get it"},
		"of a leaving shard":               {all(), deployment(ofA, "l"), parent("l"), ShardLeaving, "l is leaving"},
		"whose controller waits":           {all(), deployment(ofA, "b"), parent("x"), WithController, "no live shard at the moment"},
		"whose controller is gone":         {all(), deployment(ofA, "b"), &relative{Reference: Reference{"websites.example.com", "project", "w"}}, ControllerGone, "garbage collector"},
		"whose controller cannot be read":  {all(), deployment(ofA, "b"), &relative{err: errors.New("no")}, NotKnown, "cannot be read"},
		"that nobody controls":             {all(), deployment(""), nil, NotSpread, "The ring has nothing to do with it: it has no controller."},
		"that nobody controls any longer":  {all(), deployment("", "a"), nil, NotSpread, "a works on it as long as it has it"},
		"that something else controls":     {all(), foreign(), nil, NotSpread, "its controller is a Other.other, which the ring does not list."},
		"whose controller is not assigned": {all(), deployment(ofA, "b"), parent(), WithController, "It stays until that has one."},
	} {
		t.Run(name, func(t *testing.T) {
			s := &subject{ring: test.ring, resource: &deployments, object: test.object, selected: true, controller: test.controller}
			expectPlace(t, s.place(now), test.reason, []string{test.message})
		})
	}
}

func foreign() *metav1.PartialObjectMetadata {
	object := deployment(ofA)
	object.OwnerReferences[0].APIVersion, object.OwnerReferences[0].Kind = "other/v1", "Other"
	return object
}

func TestDeletedObject(t *testing.T) {
	object := website(ofA, "a")
	object.DeletionTimestamp, object.Finalizers = before(time.Minute), []string{"one", "two"}
	s := &subject{ring: inRing(lease("a"), lease("b")), resource: &websites, object: object, selected: true}
	expectPlace(t, s.place(now), Settled, []string{"It was deleted 60s ago and waits for its finalizers: one, two."})
}

// TestJudgesAsTheSharder compares the words with what the sharder decides, over all cases.
func TestJudgesAsTheSharder(t *testing.T) {
	f := inRing(lease("a"), lease("b"), lease("l", leaves), lease("d", heldBy("")))
	members := f.cast(now).members
	says := map[Reason]assignment.Action{
		Settled: assignment.Keep, WithController: assignment.Keep, Draining: assignment.Keep, ShardLeaving: assignment.Keep,
		Unassigned: assignment.Assign, ShardDead: assignment.Assign, ShardGone: assignment.Assign,
		DrainDue: assignment.Drain, UndrainDue: assignment.Undrain, MoveDue: assignment.Move,
	}
	shards := []string{"", "a", "b", "l", "d", "x"}
	for _, shard := range shards {
		for _, drain := range [][]string{nil, {"a"}, {"true"}} {
			s := &subject{ring: f, resource: &websites, object: website(ofA, append([]string{shard}, drain...)...), selected: true}
			object := assignment.Object{Shard: shard, Draining: drain != nil}
			if drain != nil {
				object.Destination = drain[0]
			}
			want := assignment.DecideMain(object, "a", members).Action
			if got := s.place(now); says[got.Reason] != want {
				t.Errorf("main object of %q, drained to %v: %s, but the sharder decides to %s", shard, drain, got.Reason, want)
			}
		}
		for _, controller := range shards {
			s := &subject{
				ring: f, resource: &deployments, object: deployment(ofA, shard), selected: true,
				controller: &relative{object: website(ofA, controller)},
			}
			want := assignment.DecideControlled(assignment.Object{Shard: shard}, "a", members, func() string { return controller }).Action
			if got := s.place(now); says[got.Reason] != want {
				t.Errorf("controlled object of %q, its controller of %q: %s, but the sharder decides to %s", shard, controller, got.Reason, want)
			}
		}
	}
}
