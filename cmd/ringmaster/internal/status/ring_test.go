package status

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

func TestObjectCounter(t *testing.T) {
	counter, drain := newObjectCounter(), shardingv1alpha1.LabelDrain("ring")
	deleted := website("deleted", "a")
	deleted.DeletionTimestamp = before(time.Second)
	finalizing := website("finalizing", "a")
	finalizing.DeletionTimestamp, finalizing.Finalizers = before(time.Second), []string{"f"}
	for _, object := range []*metav1.PartialObjectMetadata{
		website("one", "a"), website("two", "a"), website("three", "gone"), website("none"), deleted, finalizing,
		written(website("drained", "a", "b"), "sharder", time.Minute, byUs(drain)),
		written(website("drained-before", "b", "a"), "sharder", time.Hour, byUs(drain)),
		website("drained-sometime", "b", "a"),
		written(website("half-moved", "", "b"), "sharder", time.Second, byUs(drain)),
	} {
		counter.add("ring", &websites, object, true)
	}
	counter.add("ring", &websites, website("elsewhere", "a"), false)
	counter.add("ring", &deployments, deployment("one", "a"), true)
	counter.add("ring", &deployments, deployment(""), true)
	c := ringStateOf(nil, lease("a"), lease("b")).shardSet(now)
	want := &Counts{Objects: 10, Unassigned: 2, Orphaned: 1, Draining: 4, OldestDrain: before(time.Hour), NotSharded: 2}
	if diff := cmp.Diff(want, counter.counts(c)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"a": 5, "b": 2, "gone": 1, "": 2}, counter.shards); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 2, "": 1}, counter.draining); diff != "" {
		t.Error(diff)
	}
	// Without the Leases, it is not known which objects are orphaned.
	leasesUnreadable := ringStateOf(nil)
	leasesUnreadable.leasesUnreadable = true
	if got := counter.counts(leasesUnreadable.shardSet(now)).Orphaned; got != 0 {
		t.Errorf("%d orphaned", got)
	}
}

func TestCountedReport(t *testing.T) {
	ring := controllerRing(isReady, condition("Drained", metav1.ConditionFalse, "Shards were asked."))
	f := ringStateOf(ring, lease("a"), lease("b", leaves), lease("c"), lease("left", heldBy("")))
	f.election = lease("sharder", heldBy("sharder-0"))
	for i, shard := range []string{"a", "a", "a", "b", "c", "left", "gone", ""} {
		f.counters[0].add("ring", &websites, website(strconv.Itoa(i), shard), true)
	}
	f.counters[1].err = errors.New("deployments are a secret")
	f.unknown = []schema.GroupResource{{Group: "example.com", Resource: "themes"}}
	one := func(name, state string, member bool, n int) Shard {
		return Shard{Name: name, Namespace: "system", State: state, Member: member, Total: &n, Objects: map[string]int{"websites.example.com": n}}
	}
	b, gone := one("b", "ready", true, 1), one("gone", StateGone, false, 1)
	b.Leaving, gone.Namespace = true, ""
	counts := Counts{Objects: 8, Unassigned: 1, Orphaned: 2}
	want := Ring{
		Name: "ring", Declared: true,
		Ready:      Condition{Type: "Ready", Status: "True", Reason: "Reason", Message: "All is well.", Since: before(time.Minute)},
		Conditions: []Condition{{Type: "Drained", Status: "False", Reason: "Reason", Message: "Shards were asked.", Since: before(time.Minute)}},
		Sharders:   []Sharder{{Kind: External, Holder: "sharder-0", Namespace: "system", Since: before(time.Hour)}},
		Shards:     []Shard{one("a", "ready", true, 3), b, one("c", "ready", true, 1), one("left", "left", false, 1), gone},
		Members:    3, Available: 2,
		Kinds: []Kind{
			{Resource: "websites.example.com", Counts: &counts},
			{Resource: "deployments.apps", Controlled: true, Error: "deployments are a secret"},
			{Resource: "themes.example.com", Error: "the API server does not serve it"},
		},
		Objects:   new(8),
		Total:     &counts,
		Imbalance: 1.5, // 3 of 4 in available shards, of which there are 2
		Problems:  []Problem{{UnassignedObjects, "1 object is unassigned"}, {OrphanedObjects, "2 objects are orphaned"}},
		Warnings:  []string{"the API server does not serve themes.example.com"},
	}
	ignored := cmpopts.IgnoreFields(Shard{}, "Created", "Since", "Renewed", "Expires")
	if diff := cmp.Diff(want, f.report(now), ignored, cmpopts.IgnoreUnexported(Shard{})); diff != "" {
		t.Error(diff)
	}
}

func TestReadyWithoutControllerRing(t *testing.T) {
	for name, test := range map[string]struct {
		facts *ringState
		want  Condition
	}{
		"no shards":         {ringStateOf(nil, lease("a", heldBy(""))), Condition{Status: "False", Reason: "NoShards"}},
		"no sharder":        {ringStateOf(nil, lease("a")), Condition{Status: "False", Reason: "NoSharder"}},
		"unreadable Leases": {&ringState{declaration: &declaration{name: "ring", leasesUnreadable: true}}, Condition{Status: "Unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := test.facts.conditions(test.facts.shardSet(now), test.facts.activeSharders(now))
			if got.Status != test.want.Status || got.Reason != test.want.Reason {
				t.Errorf("%+v", got)
			}
		})
	}
	f := ringStateOf(nil, lease("a"))
	f.sharders = append(f.sharders, elected("a"))
	if got, _ := f.conditions(f.shardSet(now), f.activeSharders(now)); got.Status != metav1.ConditionTrue || got.Message != "New objects are assigned; 1 shard is available." {
		t.Errorf("%+v", got)
	}
}

func TestWarnings(t *testing.T) {
	behind := controllerRing(isReady)
	behind.Generation = 2
	deleted := controllerRing(isReady)
	deleted.DeletionTimestamp = before(time.Second)
	for name, test := range map[string]struct {
		facts *ringState
		want  []string
	}{
		"none":                        {ringStateOf(controllerRing(isReady), lease("a")), nil},
		"a spec that is not observed": {ringStateOf(behind, lease("a")), []string{"the sharder has not observed the last change"}},
		"deleted":                     {ringStateOf(deleted, lease("a")), []string{"the ControllerRing is being deleted"}},
		"a late shard":                {ringStateOf(controllerRing(isReady), lease("a", renewed(20*time.Second))), nil},
		"a dead shard that is not taken over": {
			ringStateOf(controllerRing(isReady), lease("a"), lease("b", renewed(10*time.Minute))), []string{"b has not renewed its Lease for 10m, by the clock of this computer"},
		},
		"a refused shard": {ringStateOf(controllerRing(isReady), lease("a"), lease("a", in("z"))), []string{"the Lease z/a is refused: an older shard in the namespace system"}},
	} {
		t.Run(name, func(t *testing.T) { expectWords(t, test.facts.report(now).Warnings, test.want) })
	}
}
