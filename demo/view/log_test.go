package view_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/demo/view"
)

func TestChanges(t *testing.T) {
	notReady := steadyState()
	notReady.Ring.Problem = "no shard\nis ready"
	stopped := steadyState()
	stopped.Instances[0].Process, stopped.Instances[0].Lease = "stopped", view.LeaseLeft
	for name, test := range map[string]struct {
		before, after view.State
		want          string
	}{
		"no change": {steadyState(), steadyState(), ""},
		"a failover": {steadyState(), failover(), `
12:01:56  webhosting-operator-0: killed by you; restarts in 20s
12:02:12  webhosting-operator-0: The shard has not renewed its lease
12:02:13  webhosting-operator-0: lease ready → dead
12:02:13  moved 1 website: webhosting-operator-0 → webhosting-operator-1
12:02:13  moved 1 website: webhosting-operator-0 → webhosting-operator-2
12:02:13  moved 1 website: webhosting-operator-2 → webhosting-operator-0`},
		"a graceful stop":  {steadyState(), stopped, "\n12:02:13  webhosting-operator-0: lease ready → left"},
		"no change since":  {failover(), failover(), ""},
		"a problem":        {steadyState(), notReady, "\n12:02:13  ring webhosting-operator: no shard is ready"},
		"no problem":       {notReady, steadyState(), "\n12:02:13  ring webhosting-operator: ready"},
		"from empty state": {view.State{}, view.State{Now: start, Objects: view.Objects{Name: "website"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			lines := view.Changes(test.before, test.after)
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), strings.Join(lines, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	for want, state := range map[string]view.State{
		"0 websites, 0 ready":                             {Objects: view.Objects{Name: "website"}},
		"30 websites, 30 ready: webhosting-operator-1 30": lead(),
		"30 websites, 28 ready, 1 unassigned, 3 orphaned: webhosting-operator-0 3, webhosting-operator-1 14, webhosting-operator-2 13": failover(),
	} {
		if got := view.Summary(state); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
