package view_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/demo/view"
)

func TestTell(t *testing.T) {
	troubled := calm()
	troubled.Ring.Problem = "no shard\nis ready"
	for name, test := range map[string]struct {
		before, after view.State
		want          string
	}{
		"nothing happened": {calm(), calm(), ""},
		"a kill": {calm(), stormy(), `
12:01:56  webhosting-operator-0: killed by you; starts again in 20s
12:02:12  webhosting-operator-0: The shard has not renewed its lease
12:02:13  webhosting-operator-0: lease ready → dead
12:02:13  moved 1 website: webhosting-operator-0 → webhosting-operator-1
12:02:13  moved 1 website: webhosting-operator-0 → webhosting-operator-2
12:02:13  moved 1 website: webhosting-operator-2 → webhosting-operator-0`},
		"the same again":   {stormy(), stormy(), ""},
		"a problem":        {calm(), troubled, "\n12:02:13  ring webhosting-operator: no shard is ready"},
		"no problem":       {troubled, calm(), "\n12:02:13  ring webhosting-operator: ready"},
		"from the nothing": {view.State{}, view.State{Now: start, Objects: view.Objects{Name: "website"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			lines := view.Tell(test.before, test.after)
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), strings.Join(lines, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCount(t *testing.T) {
	for want, state := range map[string]view.State{
		"0 websites, 0 ready":                             {Objects: view.Objects{Name: "website"}},
		"30 websites, 30 ready: webhosting-operator-1 30": lead(),
		"30 websites, 28 ready, 1 without a shard: webhosting-operator-0 3, webhosting-operator-1 14, webhosting-operator-2 13": stormy(),
	} {
		if got := view.Count(state); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
