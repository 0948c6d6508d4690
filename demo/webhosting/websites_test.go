package webhosting

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/demo/view"
)

func TestMissingWebsites(t *testing.T) {
	samples, err := (&Demo{example: webhostingExample}).samples()
	if err != nil {
		t.Fatal(err)
	}
	named := len(samples["Website"])
	for name, test := range map[string]struct {
		there  []string
		wanted int
		want   int
		last   string
	}{
		"none":                  {nil, 0, 0, ""},
		"some of the samples":   {nil, 2, 2, "project-bakery/menu"},
		"all of the samples":    {nil, named, named, "project-cycling/forum"},
		"one more":              {nil, named + 1, named + 1, "project-bakery/site-0013"},
		"one is there":          {[]string{"project-bakery/homepage"}, 2, 1, "project-bakery/menu"},
		"one of somebody else":  {[]string{"mine/own"}, 2, 1, "project-bakery/homepage"},
		"there are enough":      {[]string{"mine/own", "mine/other"}, 2, 0, ""},
		"one was deleted since": {[]string{"project-bakery/menu"}, 2, 1, "project-bakery/homepage"},
	} {
		t.Run(name, func(t *testing.T) {
			there := map[string]bool{}
			for _, website := range test.there {
				there[website] = true
			}
			missing := missingWebsites(samples, there, test.wanted)
			last := ""
			seen := map[string]bool{}
			for _, website := range missing {
				last = website.GetNamespace() + "/" + website.GetName()
				if seen[last] || there[last] {
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

// TestWebsitesAreMixed spreads many over all projects and themes.
func TestWebsitesAreMixed(t *testing.T) {
	samples, err := (&Demo{example: webhostingExample}).samples()
	if err != nil {
		t.Fatal(err)
	}
	mixed := map[string]int{}
	for _, website := range missingWebsites(samples, nil, 500) {
		theme := website.Object["spec"].(map[string]any)["theme"].(string)
		mixed[website.GetNamespace()+" "+theme]++
	}
	if want := len(samples["Namespace"]) * len(samples["Theme"]); len(mixed) != want {
		t.Errorf("got %v", mixed)
	}
	for mix, n := range mixed {
		if n < 40 {
			t.Errorf("only %d are in %s", n, mix)
		}
	}
}

func TestAtWork(t *testing.T) {
	ready, leads := view.Instance{Lease: "ready"}, view.Instance{Leads: true}
	both := view.Instance{Lease: "ready", Leads: true}
	before := view.Instance{Lease: "ready", Leads: true, Stale: true}
	for name, test := range map[string]struct {
		state view.State
		want  bool
	}{
		"all shards are ready":          {view.State{Mode: view.ModeShard, Instances: []view.Instance{ready, ready}}, true},
		"one is not":                    {view.State{Mode: view.ModeShard, Instances: []view.Instance{ready, {}}}, false},
		"the ring is not":               {view.State{Mode: view.ModeShard, Instances: []view.Instance{ready}, Ring: view.Ring{Problem: "?"}}, false},
		"none are wanted":               {view.State{Mode: view.ModeShard}, true},
		"one leads":                     {view.State{Mode: view.ModeLead, Instances: []view.Instance{{}, leads}}, true},
		"only an earlier one led":       {view.State{Mode: view.ModeLead, Instances: []view.Instance{{}, before}}, false},
		"one was ready before":          {view.State{Mode: view.ModeShard, Instances: []view.Instance{ready, before}}, false},
		"nobody leads":                  {view.State{Mode: view.ModeLead, Instances: []view.Instance{{}, {}}}, false},
		"one of them is the sharder":    {view.State{Mode: view.ModeInProcess, Instances: []view.Instance{ready, both}}, true},
		"nobody shards":                 {view.State{Mode: view.ModeInProcess, Instances: []view.Instance{ready, ready}}, false},
		"one shards and another is not": {view.State{Mode: view.ModeInProcess, Instances: []view.Instance{{}, both}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, atWork(test.state)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
