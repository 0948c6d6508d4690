package coordination

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// viewOf returns a view of entries, given by their keys below the root. Their versions are 1.
func viewOf(t *testing.T, entries map[string]string) *View {
	t.Helper()
	k := newKeys(DefaultRoot, "store")
	found := &kv.Snapshot{Entries: map[string]kv.Entry{}}
	for below, value := range entries {
		found.Entries[k.root+"/"+below] = kv.Entry{Value: value, Version: 1}
	}
	v, err := k.view(found)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestWaitReasons(t *testing.T) {
	t.Parallel()
	const one, two = `{"mode":"global"}`, `{"mode":"global","generation":2}`
	acts := `{"id":7,"token":7,"by":"dc1-op","action":"Restart","members":{"dc1-a":1,"dc2-a":1},"at":1,
		"steps":[{"do":"restart","members":["dc1-a"],"order":true},{"do":"restart","members":["dc2-a"],"order":true}]}`
	for name, test := range map[string]struct {
		entries map[string]string
		// pending and waits are the sets and reasons of a Restart.
		pending []MemberID
		doing   []MemberID
		waits   []WaitReason
		asked   *Step
		owner   string
		left    []string
	}{
		"nothing is there": {},
		"all are ready": {
			entries: map[string]string{
				"instances/dc1/dc1-op/1": one, "pendingForRestart/dc1/dc1-a": "", "readyForRestart/dc1/dc1-a": "", "changes/dc1": "dc1-op",
			},
			pending: []MemberID{"dc1-a"},
		},
		"one is not": {
			entries: map[string]string{
				"instances/dc1/dc1-op/1": one, "instances/dc2/dc2-op/1": two,
				"pendingForRestart/dc1/dc1-a": "", "readyForRestart/dc1/dc1-a": "", "pendingForRestart/dc2/dc2-a": "",
			},
			pending: []MemberID{"dc1-a", "dc2-a"},
			waits:   []WaitReason{{"dc2-a", "it is not ready"}},
		},
		"one is gone": {
			entries: map[string]string{
				"instances/dc1/dc1-op/1": one, "pendingForRestart/dc10/dc10-a": "", "changes/dc10": "dc10-op", "changes/dc3": "dc3-op",
				"denied/dc4/dc1-op2": "", "answers/dc5/dc5-a": `{"intent":1}`,
			},
			pending: []MemberID{"dc10-a"},
			waits:   []WaitReason{{"dc10-a", "it is not ready, and no process of dc10 is alive"}},
			left:    []string{"dc10", "dc3", "dc4", "dc5"},
		},
		"nobody is alive": {
			entries: map[string]string{"pendingForRestart/dc1/dc1-a": "", "readyForRestart/dc1/dc1-a": ""},
			pending: []MemberID{"dc1-a"},
			waits:   []WaitReason{{"dc1-a", "no process of dc1 is alive"}, {"", "a participant: none is alive"}},
			left:    []string{"dc1"},
		},
		"all are denied": {
			entries: map[string]string{
				"instances/dc1/dc1-op/1": one, "denied/dc1/dc1-op": "", "pendingForRestart/dc1/dc1-a": "", "readyForRestart/dc1/dc1-a": "",
			},
			pending: []MemberID{"dc1-a"},
			waits:   []WaitReason{{"", "a participant that may hold the lock: all that are alive are on the deny list"}},
		},
		"somebody has the lock": {
			entries: map[string]string{
				"instances/dc1/dc1-op/1": one, "lock": `{"holder":"local","token":3}`, "pendingForRestart/dc1/dc1-a": "", "readyForRestart/dc1/dc1-a": "",
			},
			pending: []MemberID{"dc1-a"},
			waits:   []WaitReason{{"local", "it holds the lock"}},
		},
		"it is being done, and one has come late": {
			entries: map[string]string{
				"instances/dc1/dc1-op/1": one, "instances/dc2/dc2-op/1": one, "instances/dc3/dc3-op/1": one,
				"lock": `{"holder":"dc1-op","token":7}`, "intent": acts,
				"pendingForRestart/dc1/dc1-a": "", "pendingForRestart/dc2/dc2-a": "", "pendingForRestart/dc3/dc3-a": "",
				"readyForRestart/dc1/dc1-a": "", "readyForRestart/dc2/dc2-a": "", "readyForRestart/dc3/dc3-a": "",
			},
			pending: []MemberID{"dc1-a", "dc2-a", "dc3-a"},
			doing:   []MemberID{"dc1-a", "dc2-a"},
			waits:   []WaitReason{{"dc1-op", "its Restart is not done yet"}},
			asked:   &Step{Do: "restart", Members: []MemberID{"dc2-a"}, Order: true},
			owner:   "dc2",
		},
		"it is answered": {
			entries: map[string]string{
				"instances/dc2/dc2-op/1": one, "intent": acts, "pendingForRestart/dc2/dc2-a": "", "answers/dc2/dc2-a": `{"intent":7,"step":1,"token":7,"done":true}`,
			},
			pending: []MemberID{"dc2-a"}, doing: []MemberID{"dc2-a"},
		},
		"it is done, and not yet noticed": {
			entries: map[string]string{
				"instances/dc1/dc1-op/1": one, "pendingForRestart/dc1/dc1-a": "", "readyForRestart/dc1/dc1-a": "",
				"done/" + tokenKey(7): `{"id":7,"token":7,"action":"Restart","members":{"dc1-a":1}}`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := viewOf(t, test.entries)
			var pending, doing []MemberID
			for id := range v.Pending(Restart) {
				pending = append(pending, id)
				if v.InProgress(Restart, id) {
					doing = append(doing, id)
				}
			}
			step, owner := v.Unanswered()
			got := []any{pending, doing, v.WaitReasons(Restart), step, owner, v.DeadParticipants(), v.Empty()}
			want := []any{test.pending, test.doing, test.waits, test.asked, test.owner, test.left, test.entries == nil}
			anyOrder := cmpopts.SortSlices(func(a, b MemberID) bool { return a < b })
			if diff := cmp.Diff(want, got, anyOrder, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOwner finds the owner of a member by its entries, also if there is only an answer, or by its name.
func TestOwner(t *testing.T) {
	t.Parallel()
	v := viewOf(t, map[string]string{
		"readyForExclusion/dc1/dc1-a": "here", "answers/dc2/dc2-a": `{}`, "instances/dc4/x/1": `{}`, "instances/dc4-b/y/1": `{}`,
	})
	for id, want := range map[MemberID]string{
		"dc1-a": "dc1", "dc2-a": "dc2", "dc3-a": "", "dc4-a": "dc4", "dc4-b-1": "dc4-b", "dc44-a": "", "dc4": "",
	} {
		if got := v.Owner(id); got != want {
			t.Errorf("%s: got %q, want %q", id, got, want)
		}
	}
}

// TestSystems ignores systems with only a name.
func TestSystems(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keys []string
		want []string
	}{
		"none":             {nil, nil},
		"elsewhere":        {[]string{"/other/store/lock"}, nil},
		"some":             {[]string{DefaultRoot + "/store/lock", DefaultRoot + "/store/token", DefaultRoot + "/another/done/7"}, []string{"another", "store"}},
		"a store's own":    {[]string{DefaultRoot + "/.sessions/7"}, nil},
		"a key at its own": {[]string{DefaultRoot, DefaultRoot + "/store"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshot := kv.Snapshot{Entries: map[string]kv.Entry{}}
			for _, key := range test.keys {
				snapshot.Entries[key] = kv.Entry{Value: "{}", Version: 1}
			}
			if diff := cmp.Diff(test.want, systems(&snapshot, DefaultRoot), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
