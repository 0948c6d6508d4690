package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// conditionFor returns a condition that is False for a reason.
func conditionFor(kind, reason string) metav1.Condition {
	c := condition(kind, metav1.ConditionFalse, "Message.")
	c.Reason = reason
	return c
}

// TestProblems are what --exit-code fails for.
func TestProblems(t *testing.T) {
	const slow, overdue = shardingv1alpha1.ReasonSlowDrain, shardingv1alpha1.ReasonDrainTimeout
	patient := controllerRing(isReady, conditionFor("Drained", slow))
	patient.Spec.Drain = &shardingv1alpha1.DrainPolicy{Timeout: &metav1.Duration{Duration: time.Hour}}
	notSynced := condition("Assigned", metav1.ConditionUnknown, "Not listed yet.")
	count := func(f *ringState, shard string, since time.Duration) *ringState {
		object := website("w", shard)
		if since > 0 {
			object = written(website("w", shard, "b"), "sharder", since, byUs(shardingv1alpha1.LabelDrain("ring")))
		}
		f.counters[0].add("ring", &websites, object, true)
		return f
	}
	healthy := func() *ringState { return ringStateOf(controllerRing(isReady), lease("a"), lease("b")) }
	of := func(conditions ...metav1.Condition) *ringState {
		return uncounted(ringStateOf(controllerRing(append(conditions, isReady)...), lease("a")))
	}
	silent := healthy()
	silent.election = lease("sharder", heldBy("sharder-0"), renewed(time.Hour))
	noRings, noShards := uncounted(ringStateOf(nil, lease("a"))), uncounted(ringStateOf(nil, lease("a", heldBy(""))))
	noRings.ringsUnreadable, noShards.ringsUnreadable = true, true
	for name, test := range map[string]struct {
		ring *ringState
		want []ProblemType
	}{
		"none":                        {of(condition("Assigned", "True", ""), condition("Drained", "True", "")), nil},
		"not ready":                   {uncounted(ringStateOf(controllerRing(conditionFor("Ready", "NoShards")), lease("a"))), []ProblemType{NotReady}},
		"without conditions":          {uncounted(ringStateOf(controllerRing(), lease("a"))), []ProblemType{NotReady, NoSharder}},
		"unassigned":                  {of(conditionFor("Assigned", "UnassignedObjects")), []ProblemType{UnassignedObjects}},
		"not synced yet":              {of(notSynced), nil},
		"draining":                    {of(conditionFor("Drained", "Draining")), nil},
		"slow drain, no timeout":      {of(conditionFor("Drained", slow)), []ProblemType{OverdueDrains}},
		"slow drain, within timeout":  {uncounted(ringStateOf(patient, lease("a"))), nil},
		"drain exceeds timeout":       {of(conditionFor("Drained", overdue)), []ProblemType{OverdueDrains}},
		"another condition":           {of(conditionFor("SoleSharder", "TwoSharders")), nil},
		"sharder not active":          {uncounted(silent), []ProblemType{NoSharder}},
		"dead shard not taken over":   {uncounted(ringStateOf(controllerRing(isReady), lease("a"), lease("b", renewed(time.Hour)))), []ProblemType{OrphanedObjects}},
		"rings unreadable":            {noRings, nil},
		"rings unreadable, no shards": {noShards, []ProblemType{NotReady}},
		"in-process, no sharder":      {uncounted(ringStateOf(nil, lease("a"))), []ProblemType{NotReady}},
		"counted, none":               {count(healthy(), "a", 0), nil},
		"counted, unassigned":         {count(healthy(), "", 0), []ProblemType{UnassignedObjects}},
		"counted, orphaned":           {count(healthy(), "x", 0), []ProblemType{OrphanedObjects}},
		"counted, draining":           {count(healthy(), "a", 10*time.Second), nil},
		"counted, slow drain":         {count(healthy(), "a", 10*time.Minute), []ProblemType{OverdueDrains}},
		"counted, within the timeout": {count(ringStateOf(patient, lease("a")), "a", 10*time.Minute), nil},
	} {
		t.Run(name, func(t *testing.T) {
			report := &Report{Rings: []Ring{test.ring.report(now)}}
			var got []ProblemType
			for _, problem := range report.Rings[0].Problems {
				got = append(got, problem.Type)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if all := report.Problems(); len(all) != len(got) || slices.ContainsFunc(all, func(p string) bool { return !strings.HasPrefix(p, `ring "ring": `) }) {
				t.Error(all)
			}
		})
	}
	leaders := &Report{Leaders: []Leader{leaderOf("a_1").report(now), leaderOf("").report(now)}}
	if diff := cmp.Diff([]string{`operator "ring": no instance leads`}, leaders.Problems()); diff != "" {
		t.Error(diff)
	}
}

// TestPublishedCounts has shards that publish how many objects they own, and one that does not.
func TestPublishedCounts(t *testing.T) {
	ring := controllerRing(isReady, condition("Assigned", "True", "All objects have a live owner."), conditionFor("Drained", "Draining"))
	both := uncounted(ringStateOf(ring,
		lease("a", publishes(`{"websites.example.com":6,"deployments.apps":5,"other":7}`)),
		lease("b", publishes(`{"websites.example.com":2,"deployments.apps":0,"later":{"form":1}}`)),
		lease("left", heldBy(""), publishes(`{"websites.example.com":9}`)))).report(now)
	foreign := uncounted(ringStateOf(controllerRing(isReady), lease("a", publishes(`{"websites.example.com":6,"deployments.apps":{"later":"form"}}`)), lease("b"), lease("c", publishes("invalid")))).report(now)
	foreign.Name = "foreign"
	dead := uncounted(ringStateOf(controllerRing(isReady), lease("a", heldBy(""), publishes(`{"websites.example.com":6,"deployments.apps":5}`)))).report(now)
	dead.Name = "dead"
	const want = `
RING      READY   SHARDS   OBJECTS   ASSIGNED   DRAINED   IMBALANCE   SHARDER
ring      True       2/2        13   True       False          1.50   external
foreign   True       3/3       6+?   ?          ?                 ?   external
dead      True       0/0         ?   ?          ?                 -   external

ring
  SHARD   NAMESPACE   STATE   LEASE AGE   WEBSITES   DEPLOYMENTS   OBJECTS
  a       system      ready   60m                6             5        11
  b       system      ready   60m                2             0         2
  left    system      left    60m                -             -         -
  (all)                                          8             5        13
  ! Drained is False (Draining): Message.

foreign
  SHARD   NAMESPACE   STATE   LEASE AGE   WEBSITES   DEPLOYMENTS   OBJECTS
  a       system      ready   60m                6             ?         ?
  b       system      ready   60m                ?             ?         ?
  c       system      ready   60m                ?             ?         ?
  (all)                                          ?             ?       6+?
  Number of objects not published by: a, b, c. To count all objects, add --count.

dead
  SHARD   NAMESPACE   STATE   LEASE AGE   WEBSITES   DEPLOYMENTS   OBJECTS
  a       system      left    60m                -             -         -
  (all)                                          ?             ?         ?
`
	report := &Report{Time: metav1.Time{Time: now}, Rings: []Ring{both, foreign, dead}}
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), printed(t, report, Table, false)); diff != "" {
		t.Error(diff)
	}
	const columns = "a:{.rings[0].objects} b:{.rings[0].total} c:{.rings[1].objects} d:{.rings[0].shards[1].objects}"
	if got := printed(t, report, "jsonpath="+columns, false); got != `a:13 b: c: d:{"deployments.apps":0,"websites.example.com":2}` {
		t.Errorf("unknown numbers must be absent: %s", got)
	}
	for format, want := range map[Format]string{
		"name": "controllerring.sharding.timebertt.dev/ring\ncontrollerring.sharding.timebertt.dev/foreign\n" +
			"controllerring.sharding.timebertt.dev/dead\n",
		"custom-columns=N:.objects": "N\n13\n<none>\n<none>\n",
	} {
		if got := printed(t, report, format, false); got != want {
			t.Errorf("%s: %s", format, got)
		}
	}
	var out strings.Builder
	if err := report.Write(&out, Style{NoHeaders: true}); err != nil || strings.Contains(out.String(), "READY") || strings.Contains(out.String(), "SHARD ") {
		t.Errorf("%v: there are headers in\n%s", err, &out)
	}
}
