package kubestore

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/keys"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// state is what is in a store.
type state struct {
	// Revision grows with every change.
	Revision int64            `json:"revision"`
	Entries  map[string]entry `json:"entries,omitempty"`
	// Sessions are those that have not ended, by ID.
	Sessions map[string]tenant `json:"sessions,omitempty"`
}

// entry is what is at a key.
type entry struct {
	Value   string `json:"value"`
	Version int64  `json:"version"`
	Session string `json:"session,omitempty"`
}

// tenant is what all have to know about a session.
type tenant struct {
	// Seconds are for how long its Lease must have been unchanged before it is ended.
	Seconds int64 `json:"seconds"`
}

func (t tenant) duration() time.Duration { return time.Duration(t.Seconds) * time.Second }

func newState() *state {
	return &state{Entries: map[string]entry{}, Sessions: map[string]tenant{}}
}

// decode reads a state as it is in a ConfigMap.
func decode(text string) (*state, error) {
	read := newState()
	if text == "" {
		return read, nil
	}
	if err := json.Unmarshal([]byte(text), read); err != nil {
		return nil, err
	}
	return read, nil
}

// encode writes a state so that people can read it.
func (s *state) encode() (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(s)
	return text.String(), err
}

// snapshot is what is at or below the paths.
func (s *state) snapshot(paths []string) *kv.Snapshot {
	found := &kv.Snapshot{Revision: s.Revision, Entries: map[string]kv.Entry{}}
	for key, is := range s.Entries {
		for _, path := range paths {
			if keys.Within(path, key) {
				found.Entries[key] = kv.Entry{Value: is.Value, Version: is.Version, Session: is.Session}
			}
		}
	}
	return found
}

// versions are those of the entries at or below a path. They differ whenever something there has changed.
func (s *state) versions(path string) map[string]int64 {
	found := map[string]int64{}
	for key, is := range s.Entries {
		if keys.Within(path, key) {
			found[key] = is.Version
		}
	}
	return found
}

// meets tells whether a condition is met.
func (s *state) meets(condition kv.Condition) bool {
	if condition.Key != "" {
		return s.Entries[condition.Key].Version == condition.Version
	}
	for _, version := range s.versions(condition.Path) {
		if version > condition.Since {
			return false
		}
	}
	return true
}

// commit does a transaction, or returns why it cannot be done. It tells whether anything has changed.
func (s *state) commit(transaction kv.Transaction) (changed bool, err error) {
	for _, condition := range transaction.If {
		if !s.meets(condition) {
			return false, kv.ErrConflict
		}
	}
	for _, operation := range transaction.Then {
		if _, alive := s.Sessions[operation.Session]; operation.Session != "" && !alive {
			return false, kv.ErrSessionLost
		}
	}
	revision := s.Revision + 1
	for _, operation := range transaction.Then {
		if s.do(operation, revision) {
			s.Revision = revision
		}
	}
	return s.Revision == revision, nil
}

// do does an operation at a revision, and tells whether anything has changed.
func (s *state) do(operation kv.Operation, revision int64) bool {
	if !operation.Delete {
		s.Entries[operation.Key] = entry{Value: operation.Value, Version: revision, Session: operation.Session}
		return true
	}
	before := len(s.Entries)
	maps.DeleteFunc(s.Entries, func(key string, _ entry) bool {
		return key == operation.Key || operation.Below && keys.Within(operation.Key, key)
	})
	return len(s.Entries) != before
}

// open adds a session.
func (s *state) open(id string, session tenant) {
	s.Revision++
	s.Sessions[id] = session
}

// end removes sessions with their entries, and tells whether there were any.
func (s *state) end(ids ...string) bool {
	before := len(s.Sessions)
	for _, id := range ids {
		if _, there := s.Sessions[id]; !there {
			continue
		}
		delete(s.Sessions, id)
		maps.DeleteFunc(s.Entries, func(_ string, is entry) bool { return is.Session == id })
	}
	if len(s.Sessions) == before {
		return false
	}
	s.Revision++
	return true
}

// durations are those of the sessions.
func (s *state) durations() []time.Duration {
	var all []time.Duration
	for _, session := range s.Sessions {
		all = append(all, session.duration())
	}
	return all
}
