package kubestore

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// TestStateIsReadable is about what people see in the ConfigMap.
func TestStateIsReadable(t *testing.T) {
	current := newState()
	current.addSession("dc1-abc", sessionRecord{Seconds: 15})
	if _, err := current.commit(kv.Transaction{Then: []kv.Operation{
		{Key: "/r/lock", Value: `{"holder": "<dc1>"}`, Session: "dc1-abc"},
		kv.Put("/r/token", "7"),
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
	commit := func(operations ...kv.Operation) (bool, error) {
		return current.commit(kv.Transaction{Then: operations})
	}
	for _, test := range []struct {
		name     string
		do       func() (bool, error)
		changed  bool
		revision int64
		err      error
	}{
		{"nothing", func() (bool, error) { return commit() }, false, 0, nil},
		{"a delete of nothing", func() (bool, error) { return commit(kv.DeleteBelow("a")) }, false, 0, nil},
		{"the end of no session", func() (bool, error) { return current.endSessions("s"), nil }, false, 0, nil},
		{"a session that is not there", func() (bool, error) { return commit(kv.Operation{Key: "a", Session: "s"}) }, false, 0, kv.ErrSessionLost},
		{"two puts", func() (bool, error) { return commit(kv.Put("a", ""), kv.Put("b", "")) }, true, 1, nil},
		{"the same again", func() (bool, error) { return commit(kv.Put("a", "")) }, true, 2, nil},
		{"a delete", func() (bool, error) { return commit(kv.Delete("a"), kv.Delete("b")) }, true, 3, nil},
		{"a session", func() (bool, error) { current.addSession("s", sessionRecord{1}); return true, nil }, true, 4, nil},
		{"its end", func() (bool, error) { return current.endSessions("s", "s"), nil }, true, 5, nil},
	} {
		changed, err := test.do()
		if changed != test.changed || current.Revision != test.revision || !errors.Is(err, test.err) {
			t.Errorf("after %s: changed %t, revision %d, %v", test.name, changed, current.Revision, err)
		}
	}
}

// TestExpiredSessions checks that a session expires when its Lease is gone, or has not changed for its duration by the clock of the
// observer. The times in the Lease do not matter.
func TestExpiredSessions(t *testing.T) {
	current := newState()
	current.addSession("a", sessionRecord{Seconds: 10})
	current.addSession("b", sessionRecord{Seconds: 20})
	lease := func(name string) coordinationv1.Lease {
		return coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: coordinationv1.LeaseSpec{
				LeaseDurationSeconds: new(int32(10)),
				RenewTime:            &metav1.MicroTime{Time: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)},
			},
		}
	}
	leaseName := func(id string) string { return "store-" + id }
	for name, test := range map[string]struct {
		unchanged map[string]time.Duration
		over      []string
		left      []string
	}{
		"all are renewed":           {map[string]time.Duration{"store-a": 9 * time.Second, "store-b": 0}, nil, nil},
		"each has its own duration": {map[string]time.Duration{"store-a": 10 * time.Second, "store-b": 19 * time.Second}, []string{"a"}, nil},
		"one is gone":               {map[string]time.Duration{"store-a": 0}, []string{"b"}, nil},
		"one is being opened":       {map[string]time.Duration{"store-a": 0, "store-b": 0, "store-c": 9 * time.Second}, nil, nil},
		"one is left":               {map[string]time.Duration{"store-a": 0, "store-b": 0, "store-c": 10 * time.Second}, nil, []string{"store-c"}},
	} {
		if diff := cmp.Diff(test.over, expiredSessions(test.unchanged, current, leaseName)); diff != "" {
			t.Errorf("%s: expired sessions (-want +got):\n%s", name, diff)
		}
		var leases []coordinationv1.Lease
		for name := range test.unchanged {
			leases = append(leases, lease(name))
		}
		var names []string
		for _, lease := range orphanedLeases(test.unchanged, leases, current, leaseName) {
			names = append(names, lease.Name)
		}
		if diff := cmp.Diff(test.left, names); diff != "" {
			t.Errorf("%s: orphaned Leases (-want +got):\n%s", name, diff)
		}
	}
}
