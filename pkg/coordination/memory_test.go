package coordination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// firstRevision makes revisions recognizable in texts: no other number in a record is as large.
const firstRevision = 1_000_000

// memoryContent is the content of a store as an immutable value. It implements the parts of a Store that do not depend on time and
// processes. Sessions end only when the model ends them, so package storetest cannot check it: TestContent has similar cases.
type memoryContent struct {
	revision int64
	entries  map[string]kv.Entry
	sessions map[string]bool
}

func newContent() memoryContent {
	return memoryContent{revision: firstRevision, entries: map[string]kv.Entry{}, sessions: map[string]bool{}}
}

// below reports whether a key is at or below a path.
func below(key, path string) bool {
	rest, ok := strings.CutPrefix(key, path)
	return ok && (rest == "" || rest[0] == '/')
}

// read is Store.Read.
func (c memoryContent) read(paths ...string) *kv.Snapshot {
	found := &kv.Snapshot{Revision: c.revision, Entries: map[string]kv.Entry{}}
	for key, entry := range c.entries {
		for _, path := range paths {
			if below(key, path) {
				found.Entries[key] = entry
			}
		}
	}
	return found
}

// isMet reports whether a condition is met.
func (c memoryContent) isMet(condition kv.Condition) bool {
	if condition.Path == "" {
		return c.entries[condition.Key].Version == condition.Version
	}
	for key, entry := range c.entries {
		if below(key, condition.Path) && entry.Version > condition.Since {
			return false
		}
	}
	return true
}

// allMet reports whether all conditions are met. Versions are unique, so an unmet condition stays unmet.
func (c memoryContent) allMet(conditions []kv.Condition) bool {
	return !slices.ContainsFunc(conditions, func(condition kv.Condition) bool { return !c.isMet(condition) })
}

// commit is Store.Commit.
func (c memoryContent) commit(t kv.Transaction) (memoryContent, error) {
	if !c.allMet(t.If) {
		return c, kv.ErrConflict
	}
	for _, operation := range t.Then {
		if operation.Session != "" && !c.sessions[operation.Session] {
			return c, kv.ErrSessionLost
		}
	}
	if len(t.Then) == 0 {
		return c, nil
	}
	c.revision++
	c.entries = maps.Clone(c.entries)
	for _, operation := range t.Then {
		switch {
		case operation.Delete:
			maps.DeleteFunc(c.entries, func(key string, _ kv.Entry) bool {
				return key == operation.Key || operation.Below && below(key, operation.Key)
			})
		default:
			c.entries[operation.Key] = kv.Entry{Value: operation.Value, Version: c.revision, Session: operation.Session}
		}
	}
	return c, nil
}

// open opens a session.
func (c memoryContent) open(id string) memoryContent {
	c.sessions = maps.Clone(c.sessions)
	c.sessions[id] = true
	return c
}

// end ends a session and removes its entries.
func (c memoryContent) end(id string) memoryContent {
	if !c.sessions[id] {
		return c
	}
	c.revision++
	c.entries, c.sessions = maps.Clone(c.entries), maps.Clone(c.sessions)
	delete(c.sessions, id)
	maps.DeleteFunc(c.entries, func(_ string, entry kv.Entry) bool { return entry.Session == id })
	return c
}

// MemoryStore is a Store in memory, for examples. Its sessions end only when they are closed.
type MemoryStore struct {
	mu      sync.Mutex
	content memoryContent
	opened  int
	changed chan struct{} // closed and replaced with each change
}

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{content: newContent(), changed: make(chan struct{})}
}

// Read implements Store.
func (m *MemoryStore) Read(_ context.Context, paths ...string) (*kv.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.content.read(paths...), nil
}

// Commit implements Store.
func (m *MemoryStore) Commit(_ context.Context, t kv.Transaction) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, err := m.content.commit(t)
	m.replace(next)
	return m.content.revision, err
}

// Watch implements Store.
func (m *MemoryStore) Watch(ctx context.Context, _ string) <-chan struct{} {
	signals := make(chan struct{}, 1)
	go func() {
		defer close(signals)
		for {
			m.mu.Lock()
			changed := m.changed
			m.mu.Unlock()
			select {
			case signals <- struct{}{}:
			default: // a signal is pending
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return signals
}

// Open implements Store.
func (m *MemoryStore) Open(_ context.Context, name string, _ time.Duration) (kv.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened++
	id := fmt.Sprintf("%s-%d", name, m.opened)
	m.content = m.content.open(id)
	return &modelSession{id: id, lost: make(chan struct{}), close: func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.replace(m.content.end(id))
		return nil
	}}, nil
}

func (m *MemoryStore) replace(next memoryContent) {
	if next.revision != m.content.revision {
		close(m.changed)
		m.changed = make(chan struct{})
	}
	m.content = next
}

func TestContent(t *testing.T) {
	t.Parallel()
	c := newContent().open("s")
	commit := func(operations ...kv.Operation) int64 {
		var err error
		if c, err = c.commit(kv.Transaction{Then: operations}); err != nil {
			t.Fatal(err)
		}
		return c.revision
	}
	commit(kv.Put("deleted", ""))
	old := commit(kv.Delete("deleted"), kv.Put("a/dc1/old", ""), kv.Put("at", ""), kv.Operation{Key: "ends", Session: "s"})
	changed := commit(kv.Put("a/dc10/x", ""), kv.Put("at", ""))
	for name, test := range map[string]struct {
		condition kv.Condition
		met       bool
	}{
		"absent after it was deleted":    {kv.IsAbsent("deleted"), true},
		"absent, but something is below": {kv.IsAbsent("a/dc1"), true},
		"not absent":                     {kv.IsAbsent("at"), false},
		"at its version":                 {kv.IsAt("at", changed), true},
		"at an older version":            {kv.IsAt("at", old), false},
		"not written":                    {kv.NotWritten("a/dc1", old), true},
		"not written, only deleted":      {kv.NotWritten("deleted", 0), true},
		"written below":                  {kv.NotWritten("a", old), false},
		"written at the key itself":      {kv.NotWritten("at", old), false},
	} {
		if c.isMet(test.condition) != test.met {
			t.Errorf("%s: met is %t", name, !test.met)
		}
	}
	if found := c.read("a/dc1").Entries; len(found) != 1 || found["a/dc1/old"].Version != old {
		t.Errorf("below a/dc1 is %v", found)
	}
	before := c
	c = c.end("s")
	if _, there := c.entries["ends"]; there || c.revision == before.revision {
		t.Error("an entry has outlived its session")
	}
	if _, there := before.entries["ends"]; !there {
		t.Error("the end of a session changed an older value")
	}
	if _, err := c.commit(kv.Transaction{Then: []kv.Operation{{Key: "late", Session: "s"}}}); !errors.Is(err, kv.ErrSessionLost) {
		t.Errorf("writing for an ended session: %v", err)
	}
	if commit(kv.DeleteBelow("a")); len(c.read("a").Entries) > 0 {
		t.Error("something is below a deleted path")
	}
}
