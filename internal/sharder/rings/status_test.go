package rings

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
	"github.com/ringmaster-project/ringmaster/internal/sharder/othersharders"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// facts are those of a healthy ring.
func facts(change ...func(*Facts)) *Facts {
	f := &Facts{
		Shards: []members.Shard{
			{Name: "a", State: membership.Ready},
			{Name: "b", State: membership.Expired},
			{Name: "c", State: membership.Dead},
		},
		Progress: moves.Progress{Synced: true},
		Fence:    Fence{Status: metav1.ConditionTrue, Reason: shardingv1alpha1.ReasonFenced},
	}
	for _, c := range change {
		c(f)
	}
	return f
}

func fencedBy(reason string) func(*Facts) {
	return func(f *Facts) {
		f.Fence = Fence{Status: metav1.ConditionFalse, Reason: reason, Message: "Policy not found."}
		if reason == shardingv1alpha1.ReasonFenced {
			f.Fence = Fence{Status: metav1.ConditionTrue, Reason: reason, Message: "The API server refuses."}
		}
	}
}

func drainingFor(since time.Duration, overdue int) func(*Facts) {
	return func(f *Facts) {
		f.Drains = moves.DrainReport{Outstanding: 3, Oldest: now.Add(-since), Shard: "a", Overdue: overdue}
	}
}

func TestConditions(t *testing.T) {
	for name, test := range map[string]struct {
		facts *Facts
		// want is the reason, and parts of the message, of a condition.
		kind, status, reason string
		message              []string
	}{
		"healthy":         {facts(), "Ready", "True", "Ready", []string{"2 shards are available"}},
		"one is cordoned": {facts(func(f *Facts) { f.Shards[1].Cordoned = true }), "Ready", "True", "Ready", []string{"1 shard is available", "being drained: b"}},
		"fenced":          {facts(fencedBy("Fenced")), "Fenced", "True", "Fenced", []string{"refuses"}},
		"fenced, and a shard's token is not bound": {
			facts(fencedBy("Fenced"), func(f *Facts) { f.Shards[0].Pod, f.Shards[1].Pod, f.Shards[2].Pod = "none", "b", "none" }),
			"Fenced", "False", "UnboundShards",
			[]string{"names: a. "},
		},
		"not fenced, and a shard's name is not its pod's": {
			facts(fencedBy("PolicyMissing"), func(f *Facts) { f.Shards[0].Pod = "pod-a" }),
			"Fenced", "False", "PolicyMissing",
			[]string{"not found", "Before that: ", "names: a. "},
		},
		"a foreign sharder": {
			facts(func(f *Facts) { f.ForeignSharder = &othersharders.Sharder{Namespace: "elsewhere"} }),
			"SoleSharder", "True", "SoleSharder",
			[]string{"namespace elsewhere", "ignored"},
		},
		"a protected resource": {
			facts(func(f *Facts) { f.Protected = []schema.GroupResource{{Resource: "nodes"}} }),
			"Ready", "False", "ProtectedResource",
			[]string{"nodes"},
		},
		"all are cordoned": {
			facts(func(f *Facts) { f.Shards[0].Cordoned, f.Shards[1].Cordoned = true, true }),
			"Ready", "False", "NoShards",
			[]string{"keep their objects until another shard is available: a, b."},
		},
		"all are cordoned, and have objects": {
			facts(func(f *Facts) { f.Shards[0].Cordoned, f.Shards[1].Cordoned = true, true }),
			"Assigned", "False", "NoShards",
			[]string{"keep their objects"},
		},
		"unknown": {facts(func(f *Facts) { f.Unknown = []schema.GroupResource{{Group: "g", Resource: "r"}} }), "Ready", "False", "UnknownResource", []string{"r.g", "retries every 5s"}},
		"forbidden": {
			facts(func(f *Facts) {
				f.Missing = []MissingRule{
					{Resource: schema.GroupResource{Group: "g", Resource: "r"}, Verbs: []string{"patch"}},
					{Resource: schema.GroupResource{Resource: "s"}, Namespace: "there", Name: "n", Verbs: []string{"delete"}},
				}
			}),
			"Ready", "False", "MissingPermission",
			[]string{
				`{apiGroups: ["g"], resources: ["r"], verbs: [patch]}`,
				`{apiGroups: [""], resources: ["s"], resourceNames: [n], verbs: [delete]} in the namespace there`, "'ringmaster role ring'",
			},
		},
		"no webhook":                      {facts(func(f *Facts) { f.Webhook = errors.New("why") }), "Ready", "False", "WebhookFailed", []string{"why"}},
		"no shards":                       {facts(func(f *Facts) { f.Shards = f.Shards[2:] }), "Ready", "False", "NoShards", nil},
		"nothing to drain":                {facts(), "Drained", "True", "NothingOutstanding", nil},
		"draining":                        {facts(drainingFor(5*time.Second, 0)), "Drained", "False", "Draining", []string{"3 drains", "less than 10s", "on shard a"}},
		"draining for long":               {facts(drainingFor(3*time.Minute+5*time.Second, 0)), "Drained", "False", "SlowDrain", []string{"3 drains", "more than 3m0s", "on shard a"}},
		"overdue":                         {facts(drainingFor(time.Second, 2)), "Drained", "False", "DrainTimeout", []string{"2 of 3 drains exceeded their timeout"}},
		"drains not known yet":            {facts(func(f *Facts) { f.Synced = false }), "Drained", "Unknown", "NotSynced", nil},
		"all have a shard":                {facts(), "Assigned", "True", "AllAssigned", nil},
		"some have none":                  {facts(func(f *Facts) { f.Counts.Unassigned = 7 }), "Assigned", "False", "UnassignedObjects", []string{"7 objects"}},
		"some failed":                     {facts(func(f *Facts) { f.Err = errors.New("why") }), "Assigned", "False", "UnassignedObjects", []string{"why"}},
		"none can have one":               {facts(func(f *Facts) { f.Shards = nil }), "Assigned", "False", "NoShards", nil},
		"no in-process sharder":           {facts(), "SoleSharder", "True", "SoleSharder", nil},
		"an in-process sharder is active": {facts(func(f *Facts) { f.OtherSharder = &othersharders.Sharder{Namespace: "theirs"} }), "SoleSharder", "False", "TwoSharders", []string{"theirs"}},
		"objects not known yet":           {facts(func(f *Facts) { f.Synced = false }), "Assigned", "Unknown", "NotSynced", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ring := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: "ring", Generation: 4}}
			setStatus(ring, test.facts, now)
			got := meta.FindStatusCondition(ring.Status.Conditions, test.kind)
			if got == nil || string(got.Status) != test.status || got.Reason != test.reason || got.ObservedGeneration != 4 {
				t.Fatalf("the condition is %+v", got)
			}
			for _, want := range test.message {
				if !strings.Contains(got.Message, want) {
					t.Errorf("%q does not say %q", got.Message, want)
				}
			}
		})
	}
}

func TestStatusCountsShards(t *testing.T) {
	ring := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
	setStatus(ring, facts(), now)
	if ring.Status.Shards != 3 || ring.Status.AvailableShards != 2 || ring.Status.ObservedGeneration != 4 {
		t.Errorf("the status is %+v", ring.Status)
	}
}

// TestNewLeaderKeepsConditionsUntilSynced because the webhook relies on the condition Drained.
func TestNewLeaderKeepsConditionsUntilSynced(t *testing.T) {
	ring := &shardingv1alpha1.ControllerRing{}
	setStatus(ring, facts(drainingFor(time.Second, 0), func(f *Facts) { f.Counts.Unassigned = 1 }), now)
	setStatus(ring, facts(func(f *Facts) { f.Synced = false }), now.Add(time.Second))
	for _, kind := range []string{shardingv1alpha1.ConditionDrained, shardingv1alpha1.ConditionAssigned} {
		if got := meta.FindStatusCondition(ring.Status.Conditions, kind); got.Status != metav1.ConditionFalse {
			t.Errorf("the condition is %+v", got)
		}
	}
	setStatus(ring, facts(), now.Add(2*time.Second))
	for _, condition := range ring.Status.Conditions {
		if condition.Status != metav1.ConditionTrue {
			t.Errorf("the condition is %+v", condition)
		}
	}
}
