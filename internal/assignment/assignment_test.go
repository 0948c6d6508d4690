package assignment_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/internal/assignment"
)

// members maps the live shards to whether they are leaving.
type members map[string]bool

func (m members) Has(shard string) bool {
	_, has := m[shard]
	return has
}

func (m members) IsLeaving(shard string) bool { return m[shard] }

var alive = members{"a": false, "b": false, "c": false, "l": true}

func decide(action assignment.Action, shard string) assignment.Decision {
	return assignment.Decision{Action: action, Shard: shard}
}

func TestDecideMain(t *testing.T) {
	for name, test := range map[string]struct {
		object  assignment.Object
		desired string
		want    assignment.Decision
	}{
		"new":                              {assignment.Object{}, "a", decide(assignment.Assign, "a")},
		"its owner is dead":                {assignment.Object{Shard: "x"}, "a", decide(assignment.Assign, "a")},
		"its owner died during the drain":  {assignment.Object{Shard: "x", Draining: true, Destination: "b"}, "a", decide(assignment.Assign, "a")},
		"its owner is the desired one":     {assignment.Object{Shard: "a"}, "a", decide(assignment.Keep, "")},
		"its owner is not the desired one": {assignment.Object{Shard: "a"}, "b", decide(assignment.Drain, "b")},
		"draining":                         {assignment.Object{Shard: "a", Draining: true, Destination: "b"}, "b", decide(assignment.Keep, "b")},
		"draining for another sharder":     {assignment.Object{Shard: "a", Draining: true, Destination: "true"}, "b", decide(assignment.Keep, "b")},
		"draining without a destination":   {assignment.Object{Shard: "a", Draining: true}, "b", decide(assignment.Keep, "b")},
		"draining to another live shard":   {assignment.Object{Shard: "a", Draining: true, Destination: "c"}, "b", decide(assignment.Drain, "b")},
		"draining to a dead shard":         {assignment.Object{Shard: "a", Draining: true, Destination: "x"}, "b", decide(assignment.Drain, "b")},
		"draining from the desired owner":  {assignment.Object{Shard: "a", Draining: true, Destination: "b"}, "a", decide(assignment.Undrain, "a")},
		"its owner is leaving":             {assignment.Object{Shard: "l"}, "a", decide(assignment.Keep, "")},
		"its owner is leaving, draining":   {assignment.Object{Shard: "l", Draining: true, Destination: "b"}, "a", decide(assignment.Keep, "")},
		"draining to a leaving shard":      {assignment.Object{Shard: "a", Draining: true, Destination: "l"}, "b", decide(assignment.Drain, "b")},
		"no shards":                        {assignment.Object{}, "", decide(assignment.Keep, "")},
		"no shards, its owner is dead":     {assignment.Object{Shard: "x"}, "", decide(assignment.Keep, "")},
	} {
		t.Run(name, func(t *testing.T) {
			got := assignment.DecideMain(test.object, test.desired, alive)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			// An object leaves a live shard only through a drain.
			if got.Action == assignment.Assign && alive.Has(test.object.Shard) {
				t.Error("taken from a live shard")
			}
		})
	}
}

func TestDecideControlled(t *testing.T) {
	const notCalled = "not called"
	for name, test := range map[string]struct {
		object     assignment.Object
		desired    string
		controller string
		want       assignment.Decision
	}{
		"new":                               {assignment.Object{}, "a", notCalled, decide(assignment.Assign, "a")},
		"its owner is dead":                 {assignment.Object{Shard: "x"}, "a", notCalled, decide(assignment.Assign, "a")},
		"its owner is the desired one":      {assignment.Object{Shard: "a"}, "a", notCalled, decide(assignment.Keep, "")},
		"its controller has the same owner": {assignment.Object{Shard: "a"}, "b", "a", decide(assignment.Keep, "")},
		"its controller has moved":          {assignment.Object{Shard: "a"}, "b", "b", decide(assignment.Move, "b")},
		"its controller has another owner":  {assignment.Object{Shard: "a"}, "b", "c", decide(assignment.Move, "c")},
		"its controller is unassigned":      {assignment.Object{Shard: "a"}, "b", "", decide(assignment.Keep, "")},
		"its controller is orphaned":        {assignment.Object{Shard: "a"}, "b", "x", decide(assignment.Keep, "")},
		"its owner is leaving":              {assignment.Object{Shard: "l"}, "a", notCalled, decide(assignment.Keep, "")},
		"no shards":                         {assignment.Object{}, "", notCalled, decide(assignment.Keep, "")},
		"draining is ignored, it stays":     {assignment.Object{Shard: "a", Draining: true}, "a", notCalled, decide(assignment.Keep, "")},
		"draining is ignored, it moves":     {assignment.Object{Shard: "a", Draining: true}, "b", "b", decide(assignment.Move, "b")},
	} {
		t.Run(name, func(t *testing.T) {
			got := assignment.DecideControlled(test.object, test.desired, alive, func() string {
				if test.controller == notCalled {
					t.Error("the controller's owner was looked up although the decision does not depend on it")
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
		assignment.Key(website, "", "home"):                                    "a website without a namespace",
		assignment.Key(schema.GroupKind{Kind: "ConfigMap"}, "project", "home"): "a core object",
		assignment.Key(schema.GroupKind{Kind: "Website"}, "project", "home"):   "a website of another group",
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
		t.Error("found a controller among owners that are not controllers")
	}
	if _, _, found := assignment.Controller([]metav1.OwnerReference{{APIVersion: "a/b/c", Controller: &yes}}); found {
		t.Error("found a controller with an invalid API version")
	}
}
