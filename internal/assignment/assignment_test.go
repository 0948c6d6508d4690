package assignment_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/internal/assignment"
)

// members are the live shards of these tests, and whether they are leaving.
type members map[string]bool

func (m members) Has(shard string) bool {
	_, has := m[shard]
	return has
}

func (m members) Leaving(shard string) bool { return m[shard] }

var alive = members{"a": false, "b": false, "c": false, "l": true}

func decide(action assignment.Action, shard string) assignment.Decision {
	return assignment.Decision{Action: action, Shard: shard}
}

func TestMainObjects(t *testing.T) {
	for name, test := range map[string]struct {
		object  assignment.Object
		desired string
		want    assignment.Decision
	}{
		"new":                                  {assignment.Object{}, "a", decide(assignment.Assign, "a")},
		"of a dead shard":                      {assignment.Object{Shard: "x"}, "a", decide(assignment.Assign, "a")},
		"of a dead shard that was to drain it": {assignment.Object{Shard: "x", Draining: true, Destination: "b"}, "a", decide(assignment.Assign, "a")},
		"where it belongs":                     {assignment.Object{Shard: "a"}, "a", decide(assignment.Keep, "")},
		"belongs elsewhere":                    {assignment.Object{Shard: "a"}, "b", decide(assignment.Drain, "b")},
		"is being drained":                     {assignment.Object{Shard: "a", Draining: true, Destination: "b"}, "b", decide(assignment.Keep, "b")},
		"is being drained by another sharder":  {assignment.Object{Shard: "a", Draining: true, Destination: "true"}, "b", decide(assignment.Keep, "b")},
		"is being drained, without a word":     {assignment.Object{Shard: "a", Draining: true}, "b", decide(assignment.Keep, "b")},
		"is drained to a live shard, not best": {assignment.Object{Shard: "a", Draining: true, Destination: "c"}, "b", decide(assignment.Drain, "b")},
		"is drained to a dead shard":           {assignment.Object{Shard: "a", Draining: true, Destination: "x"}, "b", decide(assignment.Drain, "b")},
		"need not be drained any more":         {assignment.Object{Shard: "a", Draining: true, Destination: "b"}, "a", decide(assignment.Undrain, "a")},
		"of a leaving shard":                   {assignment.Object{Shard: "l"}, "a", decide(assignment.Keep, "")},
		"of a leaving shard, draining":         {assignment.Object{Shard: "l", Draining: true, Destination: "b"}, "a", decide(assignment.Keep, "")},
		"is drained to a leaving shard":        {assignment.Object{Shard: "a", Draining: true, Destination: "l"}, "b", decide(assignment.Drain, "b")},
		"no shards":                            {assignment.Object{}, "", decide(assignment.Keep, "")},
		"no shards, but had one":               {assignment.Object{Shard: "x"}, "", decide(assignment.Keep, "")},
	} {
		t.Run(name, func(t *testing.T) {
			got := assignment.Main(test.object, test.desired, alive)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			// The promise: from a live shard only through a drain.
			if got.Action == assignment.Assign && alive.Has(test.object.Shard) {
				t.Error("taken from a live shard")
			}
		})
	}
}

func TestControlled(t *testing.T) {
	const notAsked = "not asked"
	for name, test := range map[string]struct {
		object     assignment.Object
		desired    string
		controller string
		want       assignment.Decision
	}{
		"new":                                   {assignment.Object{}, "a", notAsked, decide(assignment.Assign, "a")},
		"of a dead shard":                       {assignment.Object{Shard: "x"}, "a", notAsked, decide(assignment.Assign, "a")},
		"where it belongs":                      {assignment.Object{Shard: "a"}, "a", notAsked, decide(assignment.Keep, "")},
		"its controller is still here":          {assignment.Object{Shard: "a"}, "b", "a", decide(assignment.Keep, "")},
		"its controller has moved":              {assignment.Object{Shard: "a"}, "b", "b", decide(assignment.Move, "b")},
		"its controller has moved to another":   {assignment.Object{Shard: "a"}, "b", "c", decide(assignment.Move, "c")},
		"its controller is nobody's":            {assignment.Object{Shard: "a"}, "b", "", decide(assignment.Keep, "")},
		"its controller is on a dead shard":     {assignment.Object{Shard: "a"}, "b", "x", decide(assignment.Keep, "")},
		"of a leaving shard":                    {assignment.Object{Shard: "l"}, "a", notAsked, decide(assignment.Keep, "")},
		"no shards":                             {assignment.Object{}, "", notAsked, decide(assignment.Keep, "")},
		"a drain label on it means nothing":     {assignment.Object{Shard: "a", Draining: true}, "a", notAsked, decide(assignment.Keep, "")},
		"draining, its controller is gone here": {assignment.Object{Shard: "a", Draining: true}, "b", "b", decide(assignment.Move, "b")},
	} {
		t.Run(name, func(t *testing.T) {
			got := assignment.Controlled(test.object, test.desired, alive, func() string {
				if test.controller == notAsked {
					t.Error("the controller's shard was looked up for nothing")
				}
				return test.controller
			})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestKey(t *testing.T) {
	website := schema.GroupKind{Group: "webhosting.timebertt.dev", Kind: "Website"}
	keys := map[string]string{
		assignment.Key(website, "project", "home"):                             "a website",
		assignment.Key(website, "", "home"):                                    "one without namespace",
		assignment.Key(schema.GroupKind{Kind: "ConfigMap"}, "project", "home"): "a core object",
		assignment.Key(schema.GroupKind{Kind: "Website"}, "project", "home"):   "another group's website",
	}
	if len(keys) != 4 {
		t.Errorf("different objects have the same key: %v", keys)
	}
}

func TestController(t *testing.T) {
	yes, no := true, false
	owners := []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "an-owner"},
		{APIVersion: "v1", Kind: "Secret", Name: "another", Controller: &no},
		{APIVersion: "webhosting.timebertt.dev/v1alpha1", Kind: "Website", Name: "home", Controller: &yes},
	}
	kind, name, found := assignment.Controller(owners)
	if !found || name != "home" || kind != (schema.GroupKind{Group: "webhosting.timebertt.dev", Kind: "Website"}) {
		t.Errorf("got %v %s %t", kind, name, found)
	}
	if _, _, found := assignment.Controller(owners[:2]); found {
		t.Error("found a controller where there is none")
	}
	if _, _, found := assignment.Controller([]metav1.OwnerReference{{APIVersion: "a/b/c", Controller: &yes}}); found {
		t.Error("found a controller with a version that is none")
	}
}
