package kubestore

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/keys"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// state is the content of a store.
type state struct {
	// Revision increases with every change.
	Revision int64            `json:"revision"`
	Entries  map[string]entry `json:"entries,omitempty"`
	// Sessions are the sessions that have not ended, by ID.
	Sessions map[string]sessionRecord `json:"sessions,omitempty"`
}

// entry is the value of a key.
type entry struct {
	Value   string `json:"value"`
	Version int64  `json:"version"`
	Session string `json:"session,omitempty"`
}

// sessionRecord describes a session.
type sessionRecord struct {
	// Seconds is how long the Lease has to be unchanged before the session is ended.
	Seconds int64 `json:"seconds"`
}

func (t sessionRecord) duration() time.Duration { return time.Duration(t.Seconds) * time.Second }

func newState() *state {
	return &state{Entries: map[string]entry{}, Sessions: map[string]sessionRecord{}}
}

// decode decodes the state in a ConfigMap.
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

// encode encodes a state as readable JSON.
func (s *state) encode() (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(s)
	return text.String(), err
}

// snapshot returns the entries at or below the paths.
func (s *state) snapshot(paths []string) *kv.Snapshot {
	found := &kv.Snapshot{Revision: s.Revision, Entries: map[string]kv.Entry{}}
	for key, e := range s.Entries {
		for _, path := range paths {
			if keys.Within(path, key) {
				found.Entries[key] = kv.Entry{Value: e.Value, Version: e.Version, Session: e.Session}
			}
		}
	}
	return found
}

// versions returns the versions of the entries at or below a path. They differ after each change.
func (s *state) versions(path string) map[string]int64 {
	found := map[string]int64{}
	for key, e := range s.Entries {
		if keys.Within(path, key) {
			found[key] = e.Version
		}
	}
	return found
}

// isMet reports whether a condition is met.
func (s *state) isMet(condition kv.Condition) bool {
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

// commit applies a transaction, or returns an error. It reports whether the state has changed.
func (s *state) commit(transaction kv.Transaction) (changed bool, err error) {
	for _, condition := range transaction.If {
		if !s.isMet(condition) {
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
		if s.apply(operation, revision) {
			s.Revision = revision
		}
	}
	return s.Revision == revision, nil
}

// apply applies an operation at a revision. It reports whether the state has changed.
func (s *state) apply(operation kv.Operation, revision int64) bool {
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

// addSession adds a session.
func (s *state) addSession(id string, session sessionRecord) {
	s.Revision++
	s.Sessions[id] = session
}

// endSessions removes sessions and their entries. It reports whether any of them existed.
func (s *state) endSessions(ids ...string) bool {
	before := len(s.Sessions)
	for _, id := range ids {
		if _, ok := s.Sessions[id]; !ok {
			continue
		}
		delete(s.Sessions, id)
		maps.DeleteFunc(s.Entries, func(_ string, e entry) bool { return e.Session == id })
	}
	if len(s.Sessions) == before {
		return false
	}
	s.Revision++
	return true
}

// durations returns the durations of the sessions.
func (s *state) durations() []time.Duration {
	var all []time.Duration
	for _, session := range s.Sessions {
		all = append(all, session.duration())
	}
	return all
}
