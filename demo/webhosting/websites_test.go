package webhosting

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/demo/view"
)

func TestMissingWebsites(t *testing.T) {
	samples, err := (&Demo{example: exampleWebhosting}).samples()
	if err != nil {
		t.Fatal(err)
	}
	named := len(samples["Website"])
	for name, test := range map[string]struct {
		existing []string
		wanted   int
		want     int
		last     string
	}{
		"none":                  {nil, 0, 0, ""},
		"some of the samples":   {nil, 2, 2, "project-bakery/menu"},
		"all of the samples":    {nil, named, named, "project-cycling/forum"},
		"one more":              {nil, named + 1, named + 1, "project-bakery/site-0013"},
		"one exists":            {[]string{"project-bakery/homepage"}, 2, 1, "project-bakery/menu"},
		"one of a user":         {[]string{"mine/own"}, 2, 1, "project-bakery/homepage"},
		"enough exist":          {[]string{"mine/own", "mine/other"}, 2, 0, ""},
		"one was deleted since": {[]string{"project-bakery/menu"}, 2, 1, "project-bakery/homepage"},
	} {
		t.Run(name, func(t *testing.T) {
			existing := map[string]bool{}
			for _, website := range test.existing {
				existing[website] = true
			}
			missing := missingWebsites(samples, existing, test.wanted)
			last := ""
			seen := map[string]bool{}
			for _, website := range missing {
				last = website.GetNamespace() + "/" + website.GetName()
				if seen[last] || existing[last] {
					t.Errorf("%s is created twice", last)
				}
				seen[last] = true
			}
			if len(missing) != test.want || last != test.last {
				t.Errorf("%d are missing, the last is %q", len(missing), last)
			}
		})
	}
}

// TestWebsitesUseAllProjectsAndThemes distributes many websites over all projects and themes.
func TestWebsitesUseAllProjectsAndThemes(t *testing.T) {
	samples, err := (&Demo{example: exampleWebhosting}).samples()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, website := range missingWebsites(samples, nil, 500) {
		theme := website.Object["spec"].(map[string]any)["theme"].(string)
		counts[website.GetNamespace()+" "+theme]++
	}
	if want := len(samples["Namespace"]) * len(samples["Theme"]); len(counts) != want {
		t.Errorf("got %v", counts)
	}
	for combination, n := range counts {
		if n < 40 {
			t.Errorf("only %d are in %s", n, combination)
		}
	}
}

func TestInstancesReady(t *testing.T) {
	ready, leads := view.Instance{Lease: "ready"}, view.Instance{Leads: true}
	shardAndLeader := view.Instance{Lease: "ready", Leads: true}
	stale := view.Instance{Lease: "ready", Leads: true, Stale: true}
	for name, test := range map[string]struct {
		state view.State
		want  bool
	}{
		"all shards are ready":          {view.State{Mode: view.ModeShard, Instances: []view.Instance{ready, ready}}, true},
		"one is not ready":              {view.State{Mode: view.ModeShard, Instances: []view.Instance{ready, {}}}, false},
		"the ring is not ready":         {view.State{Mode: view.ModeShard, Instances: []view.Instance{ready}, Ring: view.Ring{Problem: "?"}}, false},
		"no instances":                  {view.State{Mode: view.ModeShard}, true},
		"one leads":                     {view.State{Mode: view.ModeLead, Instances: []view.Instance{{}, leads}}, true},
		"the leader is stale":           {view.State{Mode: view.ModeLead, Instances: []view.Instance{{}, stale}}, false},
		"one is stale":                  {view.State{Mode: view.ModeShard, Instances: []view.Instance{ready, stale}}, false},
		"no leader":                     {view.State{Mode: view.ModeLead, Instances: []view.Instance{{}, {}}}, false},
		"one is the in-process sharder": {view.State{Mode: view.ModeInProcess, Instances: []view.Instance{ready, shardAndLeader}}, true},
		"no in-process sharder":         {view.State{Mode: view.ModeInProcess, Instances: []view.Instance{ready, ready}}, false},
		"one is not ready, in-process":  {view.State{Mode: view.ModeInProcess, Instances: []view.Instance{{}, shardAndLeader}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, instancesReady(test.state)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
