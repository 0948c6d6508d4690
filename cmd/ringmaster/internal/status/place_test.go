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

// websiteOwnedBy returns the name of a website that one of these shards should own.
func websiteOwnedBy(shard string, shards ...string) string {
	r := ring.New(shards)
	for i := 0; ; i++ {
		name := fmt.Sprintf("website-%d", i)
		if r.Owner(assignment.Key(websiteKind.GroupKind, "project", name)) == shard {
			return name
		}
	}
}

// ofA is a website that a should own if the shards are a and b.
var ofA = websiteOwnedBy("a", "a", "b")

// inRing returns a ring with an active external sharder.
func inRing(shards ...*coordinationv1.Lease) *ringState {
	return ringStateOf(controllerRing(isReady), shards...)
}

func TestReasonsOfMainObjects(t *testing.T) {
	const sharder = shardingv1alpha1.IdentityShardLeaseController
	drain := shardingv1alpha1.LabelDrain("ring")
	both := func() *ringState { return inRing(lease("a"), lease("b")) }
	asked := func(ago time.Duration) *metav1.PartialObjectMetadata {
		return written(website(ofA, "b", "a"), "sharder", ago, byUs(drain))
	}
	notReady := ringStateOf(controllerRing(condition("Ready", metav1.ConditionFalse, "The sharder may not.")), lease("a"), lease("b"))
	refused := ringStateOf(controllerRing(isReady, condition("Assigned", metav1.ConditionFalse, "A policy says no.")), lease("a"), lease("b"))
	picky := inRing(lease("a"), lease("c", in("other")))
	picky.ring.Spec.ShardNamespaces = []string{"system"}
	leasesUnreadable := both()
	leasesUnreadable.leasesUnreadable, leasesUnreadable.shards = true, nil
	for name, test := range map[string]struct {
		ring    *ringState
		object  *metav1.PartialObjectMetadata
		reason  Reason
		message []string
	}{
		"assigned":                 {both(), website(ofA, "a"), AsDesired, []string{"a owns the object, as the ring requires."}},
		"late":                     {inRing(lease("a", renewed(12*time.Second)), lease("b")), website(ofA, "a"), ShardNotRenewing, []string{"has not renewed its Lease for 12s", "expires in 3s", "b gets the object"}},
		"expired":                  {inRing(lease("a", renewed(17*time.Second), shows("expired")), lease("b")), website(ofA, "a"), ShardNotRenewing, []string{"expired 2s ago", "b gets the object"}},
		"the only":                 {inRing(lease("a", renewed(17*time.Second))), website(ofA, "a"), ShardNotRenewing, []string{"No other shard is available"}},
		"no sharder":               {ringStateOf(nil, lease("a", renewed(time.Hour)), lease("b")), website(ofA, "a"), ShardNotRenewing, []string{"no sharder is active"}},
		"new":                      {both(), website(ofA), Unassigned, []string{"The object is unassigned; a should own it.", "within half a minute"}},
		"new, no sharder":          {ringStateOf(nil, lease("a"), lease("b")), website(ofA), Unassigned, []string{"But no sharder is active"}},
		"new, not ready":           {notReady, website(ofA), Unassigned, []string{"But the ring is not ready: The sharder may not."}},
		"new, against a policy":    {refused, website(ofA), Unassigned, []string{"But the ring reports: A policy says no."}},
		"new, no shards":           {inRing(), website(ofA), NoShards, []string{"No shard owns the object", "Start the controller"}},
		"orphaned":                 {both(), website(ofA, "x"), ShardGone, []string{"The shard x in its label has no Lease", "The object is orphaned and not reconciled; a should own it."}},
		"of the last shard":        {inRing(lease("a", heldBy(""))), website(ofA, "a"), NoShards, []string{"The shard a in its label left the ring 1s ago.", "no other shard is available"}},
		"of one that left":         {inRing(lease("a", heldBy(""), renewed(time.Minute)), lease("b")), website(ofA, "a"), ShardDead, []string{"a in its label left the ring 60s ago", "b should own it"}},
		"of a dead one":            {inRing(lease("a", heldBy(sharder), renewed(time.Minute)), lease("b")), website(ofA, "a"), ShardDead, []string{"a in its label is dead: the sharder took over its Lease 60s ago", "b should own it"}},
		"of one that was replaced": {inRing(lease("a", heldBy("z")), lease("b")), website(ofA, "a"), ShardDead, []string{"held by z, so the shard is not a member"}},
		"of a refused one":         {picky, website(ofA, "c"), ShardRefused, []string{"refuses the Lease of the shard c in its label: the ring accepts shards only from the namespaces system"}},
		"of a leaving one":         {inRing(lease("a", leaves), lease("b")), website(ofA, "a"), ShardLeaving, []string{"a is leaving the ring and hands the object over to b."}},
		"of one that leaves alone": {inRing(lease("a", leaves)), website(ofA, "a"), ShardLeaving, []string{"no other shard is available"}},
		"draining":                 {both(), asked(12 * time.Second), Draining, []string{"b was asked 12s ago to release the object", "a gets it next"}},
		"draining slowly":          {both(), asked(10 * time.Minute), Draining, []string{"b was asked 10m ago", "check the logs of b"}},
		"drained by others":        {both(), website(ofA, "b", "true"), Draining, []string{"b was asked to release the object, and has not done so yet; a gets it next."}},
		"drained to another":       {inRing(lease("a"), lease("b"), lease("c")), website(websiteOwnedBy("a", "a", "b", "c"), "b", "c"), Draining, []string{"a gets it next", "The request still names c."}},
		"to be drained":            {both(), website(ofA, "b"), DrainPending, []string{"b owns the object, but a should", "next resync"}},
		"to be undrained":          {both(), website(ofA, "a", "b"), UndrainPending, []string{"should keep it now"}},
		"unreadable Leases":        {leasesUnreadable, website(ofA, "a"), Unknown, []string{"the Leases of the shards cannot be read"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &objectInRing{ring: test.ring, resource: &websites, object: test.object, selected: true}
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
	agrees := map[Reason]bool{AsDesired: true, WithController: true, NotSharded: got.Shard == "", NotSelected: got.Shard == ""}
	if got.Agrees != agrees[reason] {
		t.Errorf("agrees: %t", got.Agrees)
	}
	if got.Reason == AsDesired && (got.Shard == "" || got.Shard != got.Desired || got.Draining != nil) {
		t.Errorf("the place does not match AsDesired: %+v", got)
	}
}

func TestReasonOfNamespaceNotSelected(t *testing.T) {
	f := inRing(lease("a"))
	f.spread.Namespaces = labels.SelectorFromSet(labels.Set{"project": "true"})
	s := &objectInRing{ring: f, resource: &websites, object: website(ofA)}
	expectPlace(t, s.place(now), NotSelected, []string{"namespace project: by default, project=true."})
	f.ring.Spec.NamespaceSelector = &metav1.LabelSelector{}
	s.object = website(ofA, "a")
	p := s.place(now)
	expectPlace(t, p, NotSelected, []string{"its namespaceSelector is project=true.", "Its shard label is left over: a reconciles the object"})
	if p.Desired != "" {
		t.Errorf("the desired shard is %s", p.Desired)
	}
}

func TestReasonsOfControlledObjects(t *testing.T) {
	all := func() *ringState { return inRing(lease("a"), lease("b"), lease("l", leaves)) }
	parent := func(shard ...string) *relatedObject {
		return &relatedObject{Reference: Reference{"websites.example.com", "project", ofA}, object: website(ofA, shard...)}
	}
	for name, test := range map[string]struct {
		ring       *ringState
		object     *metav1.PartialObjectMetadata
		controller *relatedObject
		reason     Reason
		message    string
	}{
		"with its controller":              {all(), deployment(ofA, "a"), parent("a"), AsDesired, "a owns the object, as the ring requires."},
		"with one that is to move":         {all(), deployment(ofA, "b"), parent("b", "a"), WithController, "Both should move to a; the object moves with its controller."},
		"ahead":                            {all(), deployment(ofA, "a"), parent("b", "a"), AsDesired, "Its controller websites.example.com/" + ofA + " is about to follow."},
		"left behind":                      {all(), deployment(ofA, "b"), parent("a"), MovePending, "has moved to a. The object follows."},
		"without a label":                  {all(), deployment(ofA), parent("b"), Unassigned, "the owner of its controller"},
		"without a label or shards":        {inRing(), deployment(ofA), parent(), NoShards, "No shard owns the object"},
		"of a dead shard":                  {all(), deployment(ofA, "x"), parent("b"), ShardGone, "b should own it"},
		"of a leaving shard":               {all(), deployment(ofA, "l"), parent("l"), ShardLeaving, "l is leaving"},
		"whose controller waits":           {all(), deployment(ofA, "b"), parent("x"), WithController, "has no live owner"},
		"whose controller is gone":         {all(), deployment(ofA, "b"), &relatedObject{Reference: Reference{"websites.example.com", "project", "w"}}, ControllerGone, "garbage collector"},
		"whose controller cannot be read":  {all(), deployment(ofA, "b"), &relatedObject{err: errors.New("no")}, Unknown, "cannot be read"},
		"that nobody controls":             {all(), deployment(""), nil, NotSharded, "The ring ignores the object: it has no controller."},
		"that nobody controls any longer":  {all(), deployment("", "a"), nil, NotSharded, "a reconciles the object as long as it has the label"},
		"that something else controls":     {all(), foreign(), nil, NotSharded, "its controller is a Other.other, which the ring does not list."},
		"whose controller is not assigned": {all(), deployment(ofA, "b"), parent(), WithController, "stays with b until it has one."},
	} {
		t.Run(name, func(t *testing.T) {
			s := &objectInRing{ring: test.ring, resource: &deployments, object: test.object, selected: true, controller: test.controller}
			expectPlace(t, s.place(now), test.reason, []string{test.message})
		})
	}
}

func foreign() *metav1.PartialObjectMetadata {
	object := deployment(ofA)
	object.OwnerReferences[0].APIVersion, object.OwnerReferences[0].Kind = "other/v1", "Other"
	return object
}

func TestDeletionIsExplained(t *testing.T) {
	object := website(ofA, "a")
	object.DeletionTimestamp, object.Finalizers = before(time.Minute), []string{"one", "two"}
	s := &objectInRing{ring: inRing(lease("a"), lease("b")), resource: &websites, object: object, selected: true}
	expectPlace(t, s.place(now), AsDesired, []string{"It was deleted 60s ago and waits for its finalizers: one, two."})
}

// TestReasonsMatchDecisions compares the reasons with the decisions of the sharder, in all cases.
func TestReasonsMatchDecisions(t *testing.T) {
	f := inRing(lease("a"), lease("b"), lease("l", leaves), lease("d", heldBy("")))
	members := f.shardSet(now).members
	actions := map[Reason]assignment.Action{
		AsDesired: assignment.Keep, WithController: assignment.Keep, Draining: assignment.Keep, ShardLeaving: assignment.Keep,
		Unassigned: assignment.Assign, ShardDead: assignment.Assign, ShardGone: assignment.Assign,
		DrainPending: assignment.Drain, UndrainPending: assignment.Undrain, MovePending: assignment.Move,
	}
	shards := []string{"", "a", "b", "l", "d", "x"}
	for _, shard := range shards {
		for _, drain := range [][]string{nil, {"a"}, {"true"}} {
			s := &objectInRing{ring: f, resource: &websites, object: website(ofA, append([]string{shard}, drain...)...), selected: true}
			object := assignment.Object{Shard: shard, Draining: drain != nil}
			if drain != nil {
				object.Destination = drain[0]
			}
			want := assignment.DecideMain(object, "a", members).Action
			if got := s.place(now); actions[got.Reason] != want {
				t.Errorf("main object of %q, drained to %v: %s, but the sharder decides to %s", shard, drain, got.Reason, want)
			}
		}
		for _, controller := range shards {
			s := &objectInRing{
				ring: f, resource: &deployments, object: deployment(ofA, shard), selected: true,
				controller: &relatedObject{object: website(ofA, controller)},
			}
			want := assignment.DecideControlled(assignment.Object{Shard: shard}, "a", members, func() string { return controller }).Action
			if got := s.place(now); actions[got.Reason] != want {
				t.Errorf("controlled object of %q, its controller of %q: %s, but the sharder decides to %s", shard, controller, got.Reason, want)
			}
		}
	}
}
