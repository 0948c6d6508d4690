package coordination

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	const quiet = 10 * time.Second
	alive := func(prefixes ...string) []Instance {
		var all []Instance
		for _, prefix := range prefixes {
			all = append(all, Instance{Name: prefix + "-operator", Prefix: prefix, Mode: Global})
		}
		return all
	}
	both := Members{"dc1-a": {Prefix: "dc1", Version: 1}, "dc2-a": {Prefix: "dc2", Version: 2}}
	for name, test := range map[string]struct {
		pending, ready Members
		instances      []Instance
		intent         *Intent
		policy         Policy
		calm           time.Duration
		open           bool
		members        Members
		waits          []Waits
		leftOut        map[MemberID]string
		again          time.Duration
	}{
		"nothing is pending": {instances: alive("dc1")},
		"all are ready": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1", Addresses: []string{"one"}, Version: 7}, "dc2-a": {Prefix: "dc2", Version: 8}},
			instances: alive("dc1", "dc2"), open: true,
			members: Members{"dc1-a": {Prefix: "dc1", Addresses: []string{"one"}, Version: 1}, "dc2-a": {Prefix: "dc2", Version: 2}},
		},
		"one is not ready": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1", "dc2"),
			members: Members{"dc1-a": both["dc1-a"]}, waits: []Waits{{"dc2-a", "it is not ready"}},
		},
		"ready at a prefix that is not its own": {
			pending: Members{"dc1-a": both["dc1-a"]}, ready: Members{"dc1-a": {Prefix: "dc10"}}, instances: alive("dc1"),
			waits: []Waits{{"dc1-a", "it is not ready"}},
		},
		"not yet quiet": {
			pending: Members{"dc1-a": both["dc1-a"]}, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1"),
			policy: Policy{Quiet: quiet}, calm: quiet - time.Second, members: Members{"dc1-a": both["dc1-a"]},
			waits: []Waits{{"", "1s more without a change"}}, again: time.Second,
		},
		"quiet": {
			pending: Members{"dc1-a": both["dc1-a"]}, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1"),
			policy: Policy{Quiet: quiet}, calm: quiet, open: true, members: Members{"dc1-a": both["dc1-a"]},
		},
		"somebody acts": {
			pending: Members{"dc1-a": both["dc1-a"]}, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1"),
			intent: &Intent{By: "dc2-operator", Action: Exclusion}, members: Members{"dc1-a": both["dc1-a"]},
			waits: []Waits{{"dc2-operator", "the Exclusion that it does is not yet done"}},
		},
		"gone, and waited for": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1"), calm: time.Hour,
			members: Members{"dc1-a": both["dc1-a"]}, waits: []Waits{{"dc2-a", "it is not ready, and no instance of dc2 is alive"}},
		},
		"gone, and left out": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1"), policy: Policy{Missing: LeaveOut},
			open: true, members: Members{"dc1-a": both["dc1-a"]}, leftOut: map[MemberID]string{"dc2-a": "no instance of dc2 is alive"},
		},
		"gone, but ready before": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}, "dc2-a": {Prefix: "dc2"}}, instances: alive("dc1"),
			open: true, members: both,
		},
		"gone, and left out also if it was ready": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}, "dc2-a": {Prefix: "dc2"}}, instances: alive("dc1"),
			policy: Policy{Missing: LeaveOut}, open: true, members: Members{"dc1-a": both["dc1-a"]},
			leftOut: map[MemberID]string{"dc2-a": "no instance of dc2 is alive"},
		},
		"alive, and not left out": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1", "dc2"), policy: Policy{Missing: LeaveOut},
			members: Members{"dc1-a": both["dc1-a"]}, waits: []Waits{{"dc2-a", "it is not ready"}},
		},
		"goes on later": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1", "dc2"),
			policy: Policy{Missing: GoOn, After: time.Minute}, calm: 50 * time.Second,
			members: Members{"dc1-a": both["dc1-a"]}, waits: []Waits{{"dc2-a", "it is not ready"}}, again: 10 * time.Second,
		},
		"goes on now": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1", "dc2"),
			policy: Policy{Missing: GoOn, After: time.Minute}, calm: time.Minute, open: true,
			members: Members{"dc1-a": both["dc1-a"]}, leftOut: map[MemberID]string{"dc2-a": "not ready after 1m0s"},
		},
		"goes on with nobody": {
			pending: both, instances: alive("dc1", "dc2"), policy: Policy{Missing: GoOn, After: time.Minute}, calm: time.Minute,
			leftOut: map[MemberID]string{"dc1-a": "not ready after 1m0s", "dc2-a": "not ready after 1m0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := &View{Instances: test.instances, Intent: test.intent, Sets: map[Set]Members{
				PendingForRestart: test.pending, ReadyForRestart: test.ready,
			}}
			got := judge(view, test.pending, test.policy, test.calm, Restart)
			want := &Verdict{
				Action: Restart, Open: test.open, Members: test.members, Waits: test.waits, LeftOut: test.leftOut, Again: test.again,
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Verdict{}), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A removal needs no preparation: it is ready when it is pending.
func TestJudgeRemoval(t *testing.T) {
	t.Parallel()
	pending := Members{"dc1-a": {Prefix: "dc1", Version: 1}}
	got := judge(&View{Sets: map[Set]Members{PendingForRemoval: pending}}, pending, Policy{}, 0, Removal)
	if !got.Open {
		t.Error(got.Summary())
	}
}
