package history_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/storetest/history"
)

const never = 1<<63 - 1

// at is an operation that began and ended at some time.
func at(began, ended int64, input, output any) porcupine.Operation {
	return porcupine.Operation{Call: began, Return: ended, Input: input, Output: output}
}

func commit(operations ...kv.Operation) history.Commit {
	return history.Commit{Transaction: kv.Transaction{Then: operations}}
}

func commitIf(condition kv.Condition, operations ...kv.Operation) history.Commit {
	return history.Commit{Transaction: kv.Transaction{If: []kv.Condition{condition}, Then: operations}}
}

func put(key, value string) kv.Operation { return kv.Put(key, value) }

func putFor(session, key, value string) kv.Operation {
	return kv.Operation{Key: key, Value: value, Session: session}
}

// snapshotAt returns the result of a read of all keys.
func snapshotAt(revision int64, entries map[string]kv.Entry) *kv.Snapshot {
	return &kv.Snapshot{Revision: revision, Entries: entries}
}

type entries = map[string]kv.Entry

var (
	all      = history.Read{Paths: []string{"a", "b", "lock"}}
	unknown  = history.Unknown{}
	conflict = history.Refused{Reason: kv.ErrConflict}
	lost     = history.Refused{Reason: kv.ErrSessionLost}
)

func done(revision int64) history.Done { return history.Done{Revision: revision} }

func TestCheck(t *testing.T) {
	one := entries{"a": {Value: "1", Version: 5}}
	two := entries{"a": {Value: "2", Version: 7}}
	held := entries{"lock": {Value: "mine", Version: 5, Session: "s"}}
	for name, test := range map[string]struct {
		operations   []porcupine.Operation
		linearizable bool
	}{
		"nothing": {nil, true},
		"a write and a read": {[]porcupine.Operation{
			at(1, 2, commit(put("a", "1")), done(5)), at(3, 4, all, snapshotAt(6, one)),
		}, true},
		"a read that overtakes a write": {[]porcupine.Operation{
			at(1, 9, commit(put("a", "1")), done(5)), at(2, 3, all, snapshotAt(4, entries{})), at(4, 5, all, snapshotAt(5, one)),
		}, true},
		"a stale read": {[]porcupine.Operation{
			at(1, 2, commit(put("a", "1")), done(5)), at(3, 4, commit(put("a", "2")), done(7)), at(5, 6, all, snapshotAt(6, one)),
		}, false},
		"a read that forgets what another has shown": {[]porcupine.Operation{
			at(1, 9, commit(put("a", "1")), done(5)), at(2, 3, all, snapshotAt(5, one)), at(4, 5, all, snapshotAt(5, entries{})),
		}, false},
		"half of a transaction": {[]porcupine.Operation{
			at(1, 9, commit(put("a", "1"), put("b", "1")), done(5)), at(2, 3, all, snapshotAt(5, one)),
		}, false},
		"a value that nobody wrote": {[]porcupine.Operation{
			at(1, 2, commit(put("a", "1")), done(5)), at(3, 4, all, snapshotAt(7, two)),
		}, false},
		"a version that is not the revision of the write": {[]porcupine.Operation{
			at(1, 2, commit(put("a", "1")), done(4)), at(3, 4, all, snapshotAt(5, one)),
		}, false},
		"revisions that go back": {[]porcupine.Operation{
			at(1, 2, commit(put("a", "1")), done(5)), at(3, 4, commit(put("b", "1")), done(4)),
		}, false},
		"two that were first": {[]porcupine.Operation{
			at(1, 4, commitIf(kv.IsAbsent("a"), put("a", "1")), done(5)),
			at(2, 3, commitIf(kv.IsAbsent("a"), put("a", "2")), done(7)),
		}, false},
		"one was first": {[]porcupine.Operation{
			at(1, 4, commitIf(kv.IsAbsent("a"), put("a", "1")), done(5)),
			at(2, 3, commitIf(kv.IsAbsent("a"), put("a", "2")), conflict),
		}, true},
		"a conflict with nobody": {[]porcupine.Operation{
			at(1, 2, commitIf(kv.IsAbsent("a"), put("a", "1")), conflict),
		}, false},
		"written below all the same": {[]porcupine.Operation{
			at(1, 2, commit(put("a/x", "1")), done(5)),
			at(3, 4, commitIf(kv.NotWritten("a", 4), put("b", "1")), done(7)),
		}, false},
		"written beside": {[]porcupine.Operation{
			at(1, 2, commit(put("a1/x", "1")), done(5)),
			at(3, 4, commitIf(kv.NotWritten("a", 4), put("b", "1")), done(7)),
		}, true},
		"an unknown write that was done": {[]porcupine.Operation{
			at(1, never, commit(put("a", "1")), unknown), at(2, 3, all, snapshotAt(5, one)),
		}, true},
		"an unknown write that was done later": {[]porcupine.Operation{
			at(1, never, commit(put("a", "1")), unknown), at(2, 3, all, snapshotAt(4, entries{})), at(4, 5, all, snapshotAt(5, one)),
		}, true},
		"an unknown write that was not done": {[]porcupine.Operation{
			at(1, never, commit(put("a", "1")), unknown), at(2, 3, all, snapshotAt(4, entries{})),
		}, true},
		"an unknown write that was taken back": {[]porcupine.Operation{
			at(1, never, commit(put("a", "1")), unknown), at(2, 3, all, snapshotAt(5, one)), at(4, 5, all, snapshotAt(5, entries{})),
		}, false},
		"an unknown write that only a conflict shows": {[]porcupine.Operation{
			at(1, never, commit(put("a", "1")), unknown),
			at(2, 3, commitIf(kv.IsAbsent("a"), put("a", "2")), conflict),
		}, true},
		"a session that ends": {[]porcupine.Operation{
			at(1, 2, commit(putFor("s", "lock", "mine")), done(5)), at(3, never, history.End{Session: "s"}, history.Ended{}),
			at(4, 5, all, snapshotAt(5, held)), at(6, 7, all, snapshotAt(6, entries{})),
		}, true},
		"a session that ends before it is lost": {[]porcupine.Operation{
			at(1, 2, commit(putFor("s", "lock", "mine")), done(5)), at(3, 4, all, snapshotAt(6, entries{})),
			at(5, never, history.End{Session: "s"}, history.Ended{}),
		}, false},
		"a session that was closed and lives on": {[]porcupine.Operation{
			at(1, 2, commit(putFor("s", "lock", "mine")), done(5)), at(3, 4, history.End{Session: "s"}, history.Ended{}),
			at(5, 6, all, snapshotAt(5, held)),
		}, false},
		"a write of a session that has ended": {[]porcupine.Operation{
			at(1, 2, history.End{Session: "s"}, history.Ended{}), at(3, 4, commit(putFor("s", "lock", "mine")), done(5)),
		}, false},
		"a refused write of a session": {[]porcupine.Operation{
			at(1, 2, commit(putFor("s", "lock", "mine")), lost), at(3, 4, all, snapshotAt(5, entries{})),
		}, true},
		"a condition upon what a session has taken along": {[]porcupine.Operation{
			at(1, 2, commit(putFor("s", "lock", "mine")), done(5)), at(3, never, history.End{Session: "s"}, history.Ended{}),
			at(4, 5, all, snapshotAt(5, entries{})), at(6, 7, commitIf(kv.IsAt("lock", 5), put("a", "1")), done(6)),
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := history.Check(test.operations, time.Minute)
			if (err == nil) != test.linearizable {
				t.Errorf("linearizable is %t, and the checker says: %v", test.linearizable, err)
			}
			if err != nil && !strings.Contains(err.Error(), "none of these fits") {
				t.Errorf("the error does not explain itself: %v", err)
			}
		})
	}
}

// memory is a store with a lock around a map. A stale one answers reads from what it has read before.
type memory struct {
	kv.Store
	mu      sync.Mutex
	now     kv.Snapshot
	stale   bool
	cached  *kv.Snapshot
	reading int
}

func (m *memory) Read(context.Context, ...string) (*kv.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reading++
	if m.stale && m.cached != nil && m.reading%5 != 0 {
		return m.cached, nil
	}
	m.cached = &kv.Snapshot{Revision: m.now.Revision, Entries: maps.Clone(m.now.Entries)}
	return m.cached, nil
}

func (m *memory) Commit(_ context.Context, transaction kv.Transaction) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, condition := range transaction.If {
		if m.now.Entries[condition.Key].Version != condition.Version {
			return 0, kv.ErrConflict
		}
	}
	m.now.Revision++
	for _, operation := range transaction.Then {
		m.now.Entries[operation.Key] = kv.Entry{Value: operation.Value, Version: m.now.Revision}
	}
	return m.now.Revision, nil
}

// TestStaleStore lets clients of a store with a cache work, which the checker has to find out, and clients of one
// without.
func TestStaleStore(t *testing.T) {
	for name, stale := range map[string]bool{"good": false, "stale": true} {
		t.Run(name, func(t *testing.T) {
			recorder := history.NewRecorder()
			store := &memory{now: kv.Snapshot{Entries: map[string]kv.Entry{}}, stale: stale}
			const clients, times = 4, 100
			var working sync.WaitGroup
			for number := range clients {
				recorded := recorder.Store(number, store)
				working.Go(func() {
					for i := range times {
						snapshot, _ := recorded.Read(t.Context(), "a")
						_, _ = recorded.Commit(t.Context(), kv.Transaction{
							If:   []kv.Condition{kv.IsAt("a", snapshot.Entries["a"].Version)},
							Then: []kv.Operation{kv.Put("a", fmt.Sprintf("%d of %d", i, number))},
						})
					}
				})
			}
			working.Wait()
			if err := history.Check(recorder.History(), time.Minute); (err != nil) != stale {
				t.Errorf("the checker says: %v", err)
			}
		})
	}
}
