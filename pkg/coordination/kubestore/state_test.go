package kubestore

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// TestStateIsReadable is about what people see in the ConfigMap.
func TestStateIsReadable(t *testing.T) {
	current := newState()
	current.open("dc1-abc", tenant{Seconds: 15})
	if _, err := current.commit(coordination.Transaction{Then: []coordination.Operation{
		{Key: "/r/lock", Value: `{"holder": "<dc1>"}`, Session: "dc1-abc"},
		coordination.Put("/r/token", "7"),
	}}); err != nil {
		t.Fatal(err)
	}
	text, err := current.encode()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "revision": 2,
 "entries": {
  "/r/lock": {
   "value": "{\"holder\": \"<dc1>\"}",
   "version": 2,
   "session": "dc1-abc"
  },
  "/r/token": {
   "value": "7",
   "version": 2
  }
 },
 "sessions": {
  "dc1-abc": {
   "seconds": 15
  }
 }
}
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(current, again); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}

// TestRevisionsGrowOnlyWithChanges keeps stores from writing, and waking all others, for nothing.
func TestRevisionsGrowOnlyWithChanges(t *testing.T) {
	current := newState()
	commit := func(operations ...coordination.Operation) (bool, error) {
		return current.commit(coordination.Transaction{Then: operations})
	}
	for _, test := range []struct {
		name     string
		do       func() (bool, error)
		changed  bool
		revision int64
		err      error
	}{
		{"nothing", func() (bool, error) { return commit() }, false, 0, nil},
		{"a delete of nothing", func() (bool, error) { return commit(coordination.DeleteBelow("a")) }, false, 0, nil},
		{"the end of no session", func() (bool, error) { return current.end("s"), nil }, false, 0, nil},
		{"a session that is not there", func() (bool, error) { return commit(coordination.Operation{Key: "a", Session: "s"}) }, false, 0, coordination.ErrSessionLost},
		{"two puts", func() (bool, error) { return commit(coordination.Put("a", ""), coordination.Put("b", "")) }, true, 1, nil},
		{"the same again", func() (bool, error) { return commit(coordination.Put("a", "")) }, true, 2, nil},
		{"a delete", func() (bool, error) { return commit(coordination.Delete("a"), coordination.Delete("b")) }, true, 3, nil},
		{"a session", func() (bool, error) { current.open("s", tenant{1}); return true, nil }, true, 4, nil},
		{"its end", func() (bool, error) { return current.end("s", "s"), nil }, true, 5, nil},
	} {
		changed, err := test.do()
		if changed != test.changed || current.Revision != test.revision || !errors.Is(err, test.err) {
			t.Errorf("after %s: changed %t, revision %d, %v", test.name, changed, current.Revision, err)
		}
	}
}

// TestObserver is about when a session is over: when its Lease is gone, or has not changed for its duration on the
// observer's clock, whatever times are written in it.
func TestObserver(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lease := func(id, version string, renewed time.Time) coordinationv1.Lease {
		return coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "store-" + id, UID: types.UID("uid-" + id), ResourceVersion: version},
			Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To[int32](10), RenewTime: &metav1.MicroTime{Time: renewed}},
		}
	}
	// look is one look at the Leases, which takes a second. The state has sessions a and b, of 10 seconds.
	type look struct {
		after  time.Duration
		leases []coordinationv1.Lease
		dead   []string
		left   int
	}
	for name, looks := range map[string][]look{
		"a Lease that is gone": {
			{0, []coordinationv1.Lease{lease("a", "1", start)}, []string{"b"}, 0},
		},
		"renewed long ago, by its own clock": {
			{0, []coordinationv1.Lease{lease("a", "1", start.Add(-time.Hour)), lease("b", "1", start.Add(time.Hour))}, nil, 0},
			{9 * time.Second, []coordinationv1.Lease{lease("a", "2", start.Add(-time.Hour)), lease("b", "1", start.Add(time.Hour))}, nil, 0},
			{11 * time.Second, []coordinationv1.Lease{lease("a", "2", start.Add(-time.Hour)), lease("b", "1", start.Add(time.Hour))}, []string{"b"}, 0},
		},
		"counted from the end of one look to the beginning of the other": {
			{0, []coordinationv1.Lease{lease("a", "1", start), lease("b", "1", start)}, nil, 0},
			{10 * time.Second, []coordinationv1.Lease{lease("a", "1", start), lease("b", "1", start)}, nil, 0},
			{11 * time.Second, []coordinationv1.Lease{lease("a", "1", start), lease("b", "1", start)}, []string{"a", "b"}, 0},
		},
		"a Lease without a session": {
			{0, []coordinationv1.Lease{lease("a", "1", start), lease("b", "1", start), lease("c", "1", start)}, nil, 0},
			{5 * time.Second, []coordinationv1.Lease{lease("a", "2", start), lease("b", "2", start), lease("c", "1", start)}, nil, 0},
			{12 * time.Second, []coordinationv1.Lease{lease("a", "3", start), lease("b", "3", start), lease("c", "1", start)}, nil, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			current := newState()
			current.open("a", tenant{Seconds: 10})
			current.open("b", tenant{Seconds: 10})
			watching := &observer{seen: map[string]sighting{}}
			for _, look := range looks {
				asked := start.Add(look.after)
				found := watching.note(asked, asked.Add(time.Second), look.leases, current, func(id string) string { return "store-" + id })
				if diff := cmp.Diff(look.dead, found.dead); diff != "" || len(found.left) != look.left {
					t.Errorf("after %s: %d Leases are left, dead are (-want +got):\n%s", look.after, len(found.left), diff)
				}
			}
		})
	}
}
