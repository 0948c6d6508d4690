package status

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// twoRings returns a ring with problems, and one without a ControllerRing.
func twoRings() *Report {
	f := ringStateOf(controllerRing(isReady, condition("Drained", metav1.ConditionFalse, "Shards were asked.")),
		lease("operator-0"), lease("operator-1", leaves), lease("operator-2", heldBy(shardingv1alpha1.IdentityShardLeaseController)), lease("operator-3", heldBy("")))
	for shard, n := range map[string]int{"operator-0": 120, "operator-1": 110, "operator-2": 3, "operator-9": 2, "": 1} {
		for range n {
			f.counters[0].add("ring", &websites, website("w", shard), true)
			f.counters[1].add("ring", &deployments, deployment("w", shard), true)
		}
	}
	f.counters[0].add("ring", &websites, written(website("w", "operator-0", "operator-1"), "sharder", 40*time.Second, byUs(shardingv1alpha1.LabelDrain("ring"))), true)
	f.counters[1].add("ring", &deployments, deployment(""), true)
	own := ringStateOf(nil, lease("a"), lease("b"))
	own.name, own.sharders = "own", append(own.sharders, elected("a_1234"))
	for _, l := range own.shards {
		l.Labels[shardingv1alpha1.LabelControllerRing] = "own"
	}
	own.spread.Resources, own.counters = own.spread.Resources[:1], own.counters[:1]
	own.counters[0].err = forbiddenError("websites is forbidden")
	own.warnings = []string{"websites are not counted: websites is forbidden"}
	return &Report{Time: metav1.Time{Time: now}, Counted: true, Namespace: "project", Rings: []Ring{f.report(now), own.report(now)}}
}

type forbiddenError string

func (e forbiddenError) Error() string { return string(e) }

func printed(t *testing.T, r *Report, format Format, coloured bool) string {
	t.Helper()
	var out strings.Builder
	if err := r.Write(&out, Style{Format: format, Coloured: coloured}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestRingsTable(t *testing.T) {
	const want = `
RING   READY   SHARDS   OBJECTS   UNASSIGNED   ORPHANED   DRAINING   IMBALANCE   SHARDER
ring   True       1/3       473            2         10    1 (40s)        1.00   external
own    True       2/2       0+?            0          0          0           ?   in-process: a_1234

ring
  SHARD        NAMESPACE   STATE     LEASE AGE   WEBSITES   DEPLOYMENTS   OBJECTS
  operator-0   system      ready     60m              121           120       241
  operator-1   system      leaving   60m              110           110       220
  operator-2   system      dead      60m                3             3         6
  operator-3   system      left      60m                0             0         0
  operator-9   -           gone      -                  2             2         4
  (none)                                                1             1         2
  (all)                                               237           236       473
  ! Drained is False (Reason): Shards were asked.

own
  SHARD   NAMESPACE   STATE   LEASE AGE   WEBSITES   OBJECTS
  a       system      ready   60m                ?         ?
  b       system      ready   60m                ?         ?
  (all)                                          ?         0
  ! websites are not counted: websites is forbidden

Only objects in the namespace project are counted.
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), printed(t, twoRings(), Table, false)); diff != "" {
		t.Error(diff)
	}
	if coloured := printed(t, twoRings(), Table, true); !strings.Contains(coloured, "\x1b[31mdead\x1b[0m") {
		t.Errorf("a dead shard is not shown in red: %q", coloured)
	}
}

// TestLateRenewalIsShown has a shard whose Lease the sharder still shows as ready.
func TestLateRenewalIsShown(t *testing.T) {
	r := ringStateOf(controllerRing(isReady), lease("a", renewed(20*time.Second)), lease("b", renewed(2*time.Second))).report(now)
	shown := printed(t, &Report{Time: metav1.Time{Time: now}, Counted: true, Rings: []Ring{r}}, Table, false)
	for _, want := range []string{"ready (renewed 20s ago)   60m", "ready                     60m"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
}

func TestRingsWide(t *testing.T) {
	wide := printed(t, twoRings(), Wide, false)
	for _, want := range []string{
		"SHARDER              NOT SHARDED   REASON",
		"SHARD        NAMESPACE   STATE     LEASE AGE   SINCE   RENEWED   DRAINING   WEBSITES.EXAMPLE.COM   DEPLOYMENTS.APPS   OBJECTS",
		"operator-0   system      ready     60m         60m     1s               1                    121                120       241",
	} {
		if !strings.Contains(wide, want) {
			t.Errorf("%q is not in\n%s", want, wide)
		}
	}
}

func twoObjects() *Report {
	ring := inRing(lease("a"), lease("b"))
	shard, drain := shardingv1alpha1.LabelShard("ring"), shardingv1alpha1.LabelDrain("ring")
	moving := &objectInRing{
		ring: ring, resource: &websites, selected: true,
		object: written(written(website(ofA, "b", "a"), "kubectl", time.Hour, byUs(shard, "app")), "sharder", 12*time.Second, byUs(drain)),
		children: []relatedObject{
			{Reference: Reference{"deployments.apps", "project", "one"}, object: written(deployment(ofA, "b"), "shard", time.Minute, byUs(shard))},
			{Reference: Reference{"deployments.apps", "project", "two"}, object: deployment(ofA, "a")},
			{Reference: Reference{"deployments.apps", "project", "three"}, object: deployment(ofA)},
			{Reference: Reference{Resource: "services"}, err: forbiddenError("services is forbidden")},
		},
	}
	child := &objectInRing{
		ring: ring, resource: &deployments, selected: true, object: deployment(ofA, "a"),
		controller: &relatedObject{Reference: Reference{"websites.example.com", "project", ofA}, object: website(ofA, "a")},
	}
	return &Report{Time: metav1.Time{Time: now}, Objects: []Object{
		{
			Reference: Reference{"websites.example.com", "project", "site"}, UID: "1234", Places: []Place{moving.place(now)},
			Events: []Event{
				{About: Reference{"websites.example.com", "project", "site"}, Type: "Normal", Reason: "Synced", Message: "all\x1b\nwell\n", Last: before(2 * time.Minute)},
				{About: Reference{"leases.coordination.k8s.io", "system", "b"}, Type: "Warning", Reason: "ShardDead", Message: "it did not renew", Count: 4, Last: before(30 * time.Second)},
			},
		},
		{Reference: Reference{"deployments.apps", "project", "deployment"}, Places: []Place{child.place(now), child.place(now)}},
	}}
}

func TestObjectsTable(t *testing.T) {
	const want = `
OBJECT                        NAMESPACE   RING   OWNER   STATE   FOR     DESIRED   DRAINING
websites.example.com/site     project     ring   b       ready   ≥ 60m   a         to a (12s)
├ deployments.apps/one                           b       ready   60s
├ deployments.apps/two                           a       ready   -
├ deployments.apps/three                         -       -       -
└ services                                       ?
deployments.apps/deployment   project     ring   a       ready   -       a         -
deployments.apps/deployment   project     ring   a       ready   -       a         -

websites.example.com/site: b was asked 12s ago to release the object, and has not done so yet; a gets it next.
services are not shown: services is forbidden
deployments.apps/deployment in ring ring: a owns the object, as the ring requires.
deployments.apps/deployment in ring ring: a owns the object, as the ring requires.

Events of websites.example.com/site
  LAST SEEN   TYPE      OBJECT                         REASON      MESSAGE
  2m          Normal    websites.example.com/site      Synced      all  well
  30s (x4)    Warning   leases.coordination.k8s.io/b   ShardDead   it did not renew
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), printed(t, twoObjects(), Table, false)); diff != "" {
		t.Error(diff)
	}
	if wide := printed(t, twoObjects(), Wide, false); !strings.Contains(wide, "to a (12s)   Draining    1234") {
		t.Errorf("the drain or the UID is not in\n%s", wide)
	}
}

// TestFieldNamesForPrograms keeps the names that programs rely on.
func TestFieldNamesForPrograms(t *testing.T) {
	var fromJSON, fromYAML any
	if err := json.Unmarshal([]byte(printed(t, twoObjects(), JSON, true)), &fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(printed(t, twoObjects(), YAML, true)), &fromYAML); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
		t.Error(diff)
	}
	child := fromJSON.(map[string]any)["objects"].([]any)[1]
	place := map[string]any{
		"ring": "ring", "shard": "a", "state": "ready", "desired": "a", "agrees": true, "reason": "AsDesired", "message": "a owns the object, as the ring requires.",
		"controller": map[string]any{"resource": "websites.example.com", "namespace": "project", "name": ofA, "shard": "a", "state": "ready"},
	}
	want := map[string]any{"resource": "deployments.apps", "namespace": "project", "name": "deployment", "places": []any{place, place}}
	if diff := cmp.Diff(want, child); diff != "" {
		t.Error(diff)
	}
	rings := map[string]any{}
	if err := yaml.Unmarshal([]byte(printed(t, twoRings(), YAML, true)), &rings); err != nil {
		t.Fatal(err)
	}
	total := map[string]any{"objects": 473.0, "unassigned": 2.0, "orphaned": 10.0, "draining": 1.0, "oldestDrain": "2026-05-01T11:59:20Z", "notSharded": 1.0}
	if diff := cmp.Diff(total, rings["rings"].([]any)[0].(map[string]any)["total"]); diff != "" {
		t.Error(diff)
	}
}

func TestParseNames(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []Name
		err  string
	}{
		"nothing":           {nil, nil, ""},
		"one":               {[]string{"website/foo"}, []Name{{"website", "foo"}}, ""},
		"several":           {[]string{"website/foo", "deploy/bar"}, []Name{{"website", "foo"}, {"deploy", "bar"}}, ""},
		"a type and names":  {[]string{"website", "foo", "bar"}, []Name{{"website", "foo"}, {"website", "bar"}}, ""},
		"a type, or a ring": {[]string{"website"}, nil, ""},
		"a mixture":         {[]string{"website/foo", "bar"}, nil, "TYPE/NAME for each object"},
		"another mixture":   {[]string{"website", "foo/bar"}, nil, "TYPE/NAME for each object"},
		"no name":           {[]string{"website/"}, nil, "TYPE/NAME, and -n for the namespace"},
		"a namespace":       {[]string{"website/foo/bar"}, nil, "-n for the namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseNames(test.args)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}
