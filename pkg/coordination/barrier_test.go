package coordination

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func TestDecide(t *testing.T) {
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
		quietFor       time.Duration
		open           bool
		members        Members
		waits          []WaitReason
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
			members: Members{"dc1-a": both["dc1-a"]}, waits: []WaitReason{{"dc2-a", "it is not ready"}},
		},
		"ready at a prefix that is not its own": {
			pending: Members{"dc1-a": both["dc1-a"]}, ready: Members{"dc1-a": {Prefix: "dc10"}}, instances: alive("dc1"),
			waits: []WaitReason{{"dc1-a", "it is not ready"}},
		},
		"not yet quiet": {
			pending: Members{"dc1-a": both["dc1-a"]}, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1"),
			policy: Policy{Quiet: quiet}, quietFor: quiet - time.Second, members: Members{"dc1-a": both["dc1-a"]},
			waits: []WaitReason{{"", "another 1s without a change"}}, again: time.Second,
		},
		"quiet": {
			pending: Members{"dc1-a": both["dc1-a"]}, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1"),
			policy: Policy{Quiet: quiet}, quietFor: quiet, open: true, members: Members{"dc1-a": both["dc1-a"]},
		},
		"somebody acts": {
			pending: Members{"dc1-a": both["dc1-a"]}, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1"),
			intent: &Intent{Holder: "dc2-operator", Action: Exclusion}, members: Members{"dc1-a": both["dc1-a"]},
			waits: []WaitReason{{"dc2-operator", "its Exclusion is not done yet"}},
		},
		"gone, and waited for": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1"), quietFor: time.Hour,
			members: Members{"dc1-a": both["dc1-a"]}, waits: []WaitReason{{"dc2-a", "it is not ready, and no process of dc2 is alive"}},
		},
		"gone, and left out": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1"), policy: Policy{Missing: LeaveOut},
			open: true, members: Members{"dc1-a": both["dc1-a"]},
			leftOut: map[MemberID]string{"dc2-a": "it is not ready, and no process of dc2 is alive"},
		},
		"gone, but ready before": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}, "dc2-a": {Prefix: "dc2"}}, instances: alive("dc1"),
			members: Members{"dc1-a": both["dc1-a"]}, waits: []WaitReason{{"dc2-a", "no process of dc2 is alive"}},
		},
		"gone, but ready before, and goes on": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}, "dc2-a": {Prefix: "dc2"}}, instances: alive("dc1"),
			policy: Policy{Missing: GoOn, After: time.Minute}, quietFor: time.Minute, open: true,
			members: Members{"dc1-a": both["dc1-a"]}, leftOut: map[MemberID]string{"dc2-a": "no process of dc2 is alive"},
		},
		"gone, and left out also if it was ready": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}, "dc2-a": {Prefix: "dc2"}}, instances: alive("dc1"),
			policy: Policy{Missing: LeaveOut}, open: true, members: Members{"dc1-a": both["dc1-a"]},
			leftOut: map[MemberID]string{"dc2-a": "no process of dc2 is alive"},
		},
		"alive, and not left out": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1", "dc2"), policy: Policy{Missing: LeaveOut},
			members: Members{"dc1-a": both["dc1-a"]}, waits: []WaitReason{{"dc2-a", "it is not ready"}},
		},
		"goes on later": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1", "dc2"),
			policy: Policy{Missing: GoOn, After: time.Minute}, quietFor: 50 * time.Second,
			members: Members{"dc1-a": both["dc1-a"]}, waits: []WaitReason{{"dc2-a", "it is not ready"}}, again: 10 * time.Second,
		},
		"goes on now": {
			pending: both, ready: Members{"dc1-a": {Prefix: "dc1"}}, instances: alive("dc1", "dc2"),
			policy: Policy{Missing: GoOn, After: time.Minute}, quietFor: time.Minute, open: true,
			members: Members{"dc1-a": both["dc1-a"]}, leftOut: map[MemberID]string{"dc2-a": "it is not ready"},
		},
		"goes on with nobody": {
			pending: both, instances: alive("dc1", "dc2"), policy: Policy{Missing: GoOn, After: time.Minute}, quietFor: time.Minute,
			leftOut: map[MemberID]string{"dc1-a": "it is not ready", "dc2-a": "it is not ready"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := &View{
				Instances: test.instances, Intent: test.intent,
				Sets:       map[Set]Members{PendingForRestart: test.pending, ReadyForRestart: test.ready},
				declaredBy: map[Set]map[MemberID][]string{PendingForRestart: prefixes(test.pending), ReadyForRestart: prefixes(test.ready)},
			}
			got := decide(view, test.pending, policies{test.policy}, test.policy.Quiet, test.quietFor, Restart)
			want := &decision{
				Action: Restart, Open: test.open, Members: test.members, Waits: test.waits, LeftOut: test.leftOut, RetryAfter: test.again,
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(decision{}), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func prefixes(members Members) map[MemberID][]string {
	all := map[MemberID][]string{}
	for id, member := range members {
		all[id] = []string{member.Prefix}
	}
	return all
}

// A member can have entries of several participants, for example if its own participant is gone.
func TestMemberOfSeveralParticipants(t *testing.T) {
	t.Parallel()
	k := newKeys(DefaultRoot, "store")
	entries := map[string]kv.Entry{
		"pendingForExclusion/dc1/dc3-a": {Version: 5}, "pendingForExclusion/dc2/dc3-a": {Version: 7},
		"readyForExclusion/dc1/dc3-a": {Value: "here", Version: 5}, "instances/dc1/dc1-op/1": {Value: "{}", Version: 1},
	}
	look := func(more map[string]kv.Entry) *View {
		found := &kv.Snapshot{Entries: map[string]kv.Entry{}}
		for _, some := range []map[string]kv.Entry{entries, more} {
			for below, entry := range some {
				found.Entries[k.root+"/"+below] = entry
			}
		}
		v, err := k.view(found)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := look(nil)
	if got := v.Sets[PendingForExclusion]["dc3-a"]; got.Prefix != "dc2" || got.Version != 7 {
		t.Errorf("the last one that asks is %+v", got)
	}
	if got := decide(v, v.Pending(Exclusion), policies{{}}, 0, 0, Exclusion); got.Open {
		t.Error("one of them has not said that it is ready")
	}
	v = look(map[string]kv.Entry{"readyForExclusion/dc2/dc3-a": {Value: "there", Version: 8}})
	if got := decide(v, v.Pending(Exclusion), policies{{Missing: LeaveOut}}, 0, 0, Exclusion); !got.Open || got.Members["dc3-a"].Addresses[0] != "there" {
		t.Error(got.Summary())
	}
	done := map[string]kv.Entry{"done/" + tokenKey(9): {Value: `{"id":9,"token":9,"action":"Exclusion","members":{"dc3-a":7}}`, Version: 9}}
	if got := look(done).Pending(Exclusion); len(got) != 0 {
		t.Errorf("it was done for both, and %v is pending", got)
	}
}

// A candidate for the leader needs no action and is not leaving.
func TestCandidates(t *testing.T) {
	t.Parallel()
	done := func(action Action) map[string]string {
		return map[string]string{"done/" + tokenKey(7): `{"id":7,"token":7,"action":"` + string(action) + `","members":{"dc1-a":1}}`}
	}
	for name, test := range map[string]struct {
		set   Set
		after map[string]string
		want  int
	}{
		"to be restarted":           {PendingForRestart, nil, 1},
		"restarted":                 {PendingForRestart, done(Restart), 2},
		"to be excluded":            {PendingForExclusion, nil, 1},
		"excluded":                  {PendingForExclusion, done(Exclusion), 1},
		"removed, and not yet gone": {PendingForRemoval, done(Removal), 1},
		"to be included":            {PendingForInclusion, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := map[string]string{string(test.set) + "/dc1/dc1-a": ""}
			maps.Copy(entries, test.after)
			if got := viewOf(t, entries).Candidates([]MemberID{"dc1-a", "dc2-a"}, Exclusion, Removal); len(got) != test.want {
				t.Errorf("%v may lead", got)
			}
		})
	}
}

// A done record is kept while an entry depends on it. The number of records that are removed at once is limited.
func TestObsoleteDoneRecords(t *testing.T) {
	t.Parallel()
	entries := map[string]string{"pendingForRestart/dc1/dc1-a": ""}
	record := func(token int64, failure string) {
		entries["done/"+tokenKey(token)] = fmt.Sprintf(`{"id":%d,"token":%d,"action":"Restart","failure":%q,"members":{"dc1-a":1}}`, token, token, failure)
	}
	record(1, "") // the entry still exists
	for token := range int64(200) {
		record(token+2, "it does not work")
	}
	got := obsoleteDoneRecords(viewOf(t, entries), 10, maxDoneRecordsSize)
	if len(got) != maxRemovedDoneRecords {
		t.Errorf("%d are removed", len(got))
	}
	for _, done := range got {
		if done.Failure == "" || done.Token > 191 {
			t.Errorf("%+v is removed", done.Intent)
		}
	}
}
