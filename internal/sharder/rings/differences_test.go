package rings

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// ringResource is a main resource with what it controls, as "resource.group".
func ringResource(main string, controlled ...string) shardingv1alpha1.RingResource {
	parse := func(name string) shardingv1alpha1.GroupResource {
		resource, group, _ := strings.Cut(name, ".")
		return shardingv1alpha1.GroupResource{Group: group, Resource: resource}
	}
	r := shardingv1alpha1.RingResource{GroupResource: parse(main)}
	for _, name := range controlled {
		r.ControlledResources = append(r.ControlledResources, parse(name))
	}
	return r
}

// declares is a shard that has declared resources, as the library does it.
func declares(t *testing.T, name string, resources ...shardingv1alpha1.RingResource) members.Shard {
	t.Helper()
	text, err := json.Marshal(resources)
	if err != nil {
		t.Fatal(err)
	}
	return members.Shard{Name: name, State: membership.Ready, Resources: string(text)}
}

func declaresText(name, text string) members.Shard {
	return members.Shard{Name: name, State: membership.Ready, Resources: text}
}

func TestDeclaredResourcesAreCompared(t *testing.T) {
	websites := ringResource("websites.example.com", "configmaps", "deployments.apps")
	dead, leaving, cordoned := declares(t, "dead"), declares(t, "leaving"), declares(t, "cordoned")
	dead.State, leaving.Leaving, cordoned.Cordoned = membership.Dead, true, true
	var many []shardingv1alpha1.RingResource
	for i := range 40 {
		many = append(many, ringResource(fmt.Sprint("kind", i)))
	}
	for name, test := range map[string]struct {
		shards []members.Shard
		want   []string
		reason string
	}{
		"no shards":                   {},
		"the same":                    {shards: []members.Shard{declares(t, "a", websites)}},
		"in another order":            {shards: []members.Shard{declares(t, "a", ringResource("websites.example.com", "deployments.apps", "configmaps"))}},
		"not declared":                {shards: []members.Shard{declaresText("a", "")}},
		"no live shard, or not a new": {shards: []members.Shard{dead, leaving, cordoned}},
		"garbage": {shards: []members.Shard{
			declaresText("a", "{"), declaresText("b", `"websites"`), declaresText("c", `[{"resource": 1}]`), declaresText("d", `[{"group": "g"}]`), declaresText("e", "[]]"),
			declaresText("f", `[{"resource": "two\nlines"}]`), declaresText("g", `[{"resource": "`+strings.Repeat("x", 300)+`"}]`), declares(t, "h", many...),
			declaresText("i", `[{"resource": "websites", "controlledResources": [{"resource": "<b>"}]}]`),
		}},
		"no controlled resource": {
			shards: []members.Shard{declares(t, "a", ringResource("websites.example.com", "deployments.apps"))},
			want:   []string{"shard a does not watch configmaps controlled by websites.example.com"}, reason: "NotWatched",
		},
		"one more": {
			shards: []members.Shard{declares(t, "a", websites, ringResource("secrets", "pods"))},
			want:   []string{"shard a watches secrets, which the ring does not list"}, reason: "NotListed",
		},
		"one more controlled resource": {
			shards: []members.Shard{declares(t, "a", ringResource("websites.example.com", "configmaps", "deployments.apps", "services"))},
			want:   []string{"shard a watches services controlled by websites.example.com, which the ring does not list"}, reason: "NotListed",
		},
		"another one": {
			shards: []members.Shard{declares(t, "a", ringResource("themes.example.com"))},
			want:   []string{"shard a does not watch websites.example.com", "shard a watches themes.example.com, which the ring does not list"}, reason: "NotWatched",
		},
		"another group": {
			shards: []members.Shard{declares(t, "a", ringResource("websites.other.com", "configmaps", "deployments.apps"))},
			want:   []string{"shard a does not watch websites.example.com", "shard a watches websites.other.com, which the ring does not list"}, reason: "NotWatched",
		},
		"nothing": {shards: []members.Shard{declares(t, "a")}, want: []string{"shard a does not watch websites.example.com"}, reason: "NotWatched"},
		"main in one, controlled in the other": {
			shards: []members.Shard{declares(t, "a", ringResource("websites.example.com", "deployments.apps"), ringResource("configmaps"))},
			want: []string{
				"shard a does not watch configmaps controlled by websites.example.com", "shard a watches configmaps, which the ring does not list",
			}, reason: "NotWatched",
		},
		"several shards, as in a rollout": {
			shards: []members.Shard{declares(t, "a", websites), declares(t, "b", websites, ringResource("secrets")), declares(t, "c", websites, ringResource("secrets"))},
			want:   []string{"shards b, c watch secrets, which the ring does not list"}, reason: "NotListed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := differences([]shardingv1alpha1.RingResource{websites}, test.shards)
			var got []string
			for _, difference := range found {
				got = append(got, difference.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			condition := matchingCondition(found)
			if (condition != nil) != (test.reason != "") {
				t.Fatalf("the condition is %+v", condition)
			}
			if condition == nil {
				return
			}
			if condition.Reason != test.reason {
				t.Errorf("the reason is %s", condition.Reason)
			}
			for _, want := range test.want {
				if !strings.Contains(condition.Message, want) {
					t.Errorf("%q does not say %q", condition.Message, want)
				}
			}
		})
	}
}

// TestDifferencesAreBounded has many shards with different declarations, with the longest names.
func TestDifferencesAreBounded(t *testing.T) {
	var shards []members.Shard
	for i := range 500 {
		var resources []shardingv1alpha1.RingResource
		for j := range 7 {
			resources = append(resources, ringResource(fmt.Sprintf("%d-%d-%s.%s", i, j, strings.Repeat("x", 200), strings.Repeat("y", 250))))
		}
		shards = append(shards, declares(t, fmt.Sprintf("shard-%s-%03d", strings.Repeat("z", 50), i), resources...))
	}
	condition := matchingCondition(differences([]shardingv1alpha1.RingResource{ringResource("websites." + strings.Repeat("w", 240))}, shards))
	if condition == nil || len(condition.Message) > maxEventNote {
		t.Errorf("the condition is %+v", condition)
	} else {
		t.Logf("%d bytes", len(condition.Message))
	}
}

// FuzzDeclaredResources parses arbitrary text in the annotation of a Lease.
func FuzzDeclaredResources(f *testing.F) {
	for _, seed := range []string{"", "null", "[]", `[{"group":"g","resource":"r","controlledResources":[{"resource":"c"}]}]`, `[{"resource":"r"},{"resource":"r"}]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		condition := matchingCondition(differences([]shardingv1alpha1.RingResource{ringResource("websites.example.com", "configmaps")}, []members.Shard{declaresText("a", text)}))
		if condition != nil && len(condition.Message) > maxEventNote {
			t.Errorf("%d bytes", len(condition.Message))
		}
	})
}
