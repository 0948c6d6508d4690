package coordination

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// firstRevision makes revisions recognizable in whatever mentions them: nothing else in a record is such a large number.
const firstRevision = 1_000_000

// content is what a store has, as a value: a transaction and the end of a session return another one. It keeps the promises of
// a Store that have nothing to do with time and processes. Sessions end only when the model says so, so package storetest, which
// outlives them, cannot look at it: TestContent has its cases about entries, conditions and sessions.
type content struct {
	revision int64
	entries  map[string]Entry
	sessions map[string]bool
}

func newContent() content {
	return content{revision: firstRevision, entries: map[string]Entry{}, sessions: map[string]bool{}}
}

// below tells whether a key is at or below a path.
func below(key, path string) bool {
	rest, is := strings.CutPrefix(key, path)
	return is && (rest == "" || rest[0] == '/')
}

// read is Store.Read.
func (c content) read(paths ...string) *Snapshot {
	found := &Snapshot{Revision: c.revision, Entries: map[string]Entry{}}
	for key, entry := range c.entries {
		for _, path := range paths {
			if below(key, path) {
				found.Entries[key] = entry
			}
		}
	}
	return found
}

// met tells whether a condition is.
func (c content) met(condition Condition) bool {
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

// all tells whether all conditions are met. Versions are never used again, so what is not met once never is.
func (c content) all(conditions []Condition) bool {
	return !slices.ContainsFunc(conditions, func(condition Condition) bool { return !c.met(condition) })
}

// commit is Store.Commit.
func (c content) commit(t Transaction) (content, error) {
	if !c.all(t.If) {
		return c, ErrConflict
	}
	for _, operation := range t.Then {
		if operation.Session != "" && !c.sessions[operation.Session] {
			return c, ErrSessionLost
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
			maps.DeleteFunc(c.entries, func(key string, _ Entry) bool {
				return key == operation.Key || operation.Below && below(key, operation.Key)
			})
		default:
			c.entries[operation.Key] = Entry{Value: operation.Value, Version: c.revision, Session: operation.Session}
		}
	}
	return c, nil
}

// open begins a session.
func (c content) open(id string) content {
	c.sessions = maps.Clone(c.sessions)
	c.sessions[id] = true
	return c
}

// end ends a session, and its entries with it.
func (c content) end(id string) content {
	if !c.sessions[id] {
		return c
	}
	c.revision++
	c.entries, c.sessions = maps.Clone(c.entries), maps.Clone(c.sessions)
	delete(c.sessions, id)
	maps.DeleteFunc(c.entries, func(_ string, entry Entry) bool { return entry.Session == id })
	return c
}

func TestContent(t *testing.T) {
	t.Parallel()
	c := newContent().open("s")
	commit := func(operations ...Operation) int64 {
		var err error
		if c, err = c.commit(Transaction{Then: operations}); err != nil {
			t.Fatal(err)
		}
		return c.revision
	}
	commit(Put("deleted", ""))
	old := commit(Delete("deleted"), Put("a/dc1/old", ""), Put("at", ""), Operation{Key: "ends", Session: "s"})
	changed := commit(Put("a/dc10/x", ""), Put("at", ""))
	for name, test := range map[string]struct {
		condition Condition
		met       bool
	}{
		"absent after it was deleted":    {IsAbsent("deleted"), true},
		"absent, but something is below": {IsAbsent("a/dc1"), true},
		"not absent":                     {IsAbsent("at"), false},
		"at its version":                 {IsAt("at", changed), true},
		"at an older version":            {IsAt("at", old), false},
		"not written":                    {NotWritten("a/dc1", old), true},
		"not written, only deleted":      {NotWritten("deleted", 0), true},
		"written below":                  {NotWritten("a", old), false},
		"written at the key itself":      {NotWritten("at", old), false},
	} {
		if c.met(test.condition) != test.met {
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
	if _, err := c.commit(Transaction{Then: []Operation{{Key: "late", Session: "s"}}}); !errors.Is(err, ErrSessionLost) {
		t.Errorf("writing for an ended session: %v", err)
	}
	if commit(DeleteBelow("a")); len(c.read("a").Entries) > 0 {
		t.Error("something is below a deleted path")
	}
}
