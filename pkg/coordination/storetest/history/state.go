package history

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/keys"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// modelState is the state of a store as far as its clients can know. It is immutable.
type modelState struct {
	// revision is the minimum revision of the store. Other clients may write to other paths, so it may be higher.
	revision int64
	entries  map[string]knownEntry
	ended    map[string]bool
}

// knownEntry is the known part of an entry.
type knownEntry struct {
	value, session string
	// version is 0 while it is not known. It is more than after then, which is 0 otherwise.
	version, newerThan int64
}

// canHaveVersion reports whether the entry can have a version.
func (f knownEntry) canHaveVersion(version int64) bool {
	return version != 0 && (f.version == version || f.version == 0 && version > f.newerThan)
}

func newModelState() modelState { return modelState{} }

func (w modelState) copy() modelState {
	w.entries, w.ended = maps.Clone(w.entries), maps.Clone(w.ended)
	if w.entries == nil {
		w.entries = map[string]knownEntry{}
	}
	if w.ended == nil {
		w.ended = map[string]bool{}
	}
	return w
}

// read returns the state after a read that returned the snapshot, and whether that is possible.
func (w modelState) read(paths []string, snapshot *kv.Snapshot) (modelState, bool) {
	if snapshot.Revision < w.revision {
		return w, false
	}
	after := w.copy()
	after.revision = snapshot.Revision
	shown := 0
	for key, known := range w.entries {
		if !slices.ContainsFunc(paths, func(path string) bool { return keys.Within(path, key) }) {
			continue
		}
		entry, ok := snapshot.Entries[key]
		if !ok || entry.Value != known.value || entry.Session != known.session || !known.canHaveVersion(entry.Version) || entry.Version > snapshot.Revision {
			return w, false
		}
		shown++
		known.version, known.newerThan = entry.Version, 0
		after.entries[key] = known
	}
	return after, shown == len(snapshot.Entries)
}

// canBeMet reports whether a condition can be met, and canBeUnmet whether it can be unmet.
func (w modelState) canBeMet(condition kv.Condition) bool {
	if condition.Key != "" {
		entry, ok := w.entries[condition.Key]
		return ok && entry.canHaveVersion(condition.Version) || !ok && condition.Version == 0
	}
	return !w.anyBelow(condition.Path, func(entry knownEntry) bool { return max(entry.version, entry.newerThan+1) > condition.Since })
}

func (w modelState) canBeUnmet(condition kv.Condition) bool {
	if condition.Key != "" {
		entry, ok := w.entries[condition.Key]
		return ok && (entry.version == 0 || entry.version != condition.Version) || !ok && condition.Version != 0
	}
	return w.anyBelow(condition.Path, func(entry knownEntry) bool { return entry.version == 0 || entry.version > condition.Since })
}

func (w modelState) anyBelow(path string, matches func(knownEntry) bool) bool {
	for key, entry := range w.entries {
		if keys.Within(path, key) && matches(entry) {
			return true
		}
	}
	return false
}

// canCommit reports whether a transaction can take effect.
func (w modelState) canCommit(transaction kv.Transaction) bool {
	for _, operation := range transaction.Then {
		if w.ended[operation.Session] {
			return false
		}
	}
	return !slices.ContainsFunc(transaction.If, func(condition kv.Condition) bool { return !w.canBeMet(condition) })
}

// canConflict reports whether a transaction can be refused because of its conditions.
func (w modelState) canConflict(transaction kv.Transaction) bool {
	return slices.ContainsFunc(transaction.If, w.canBeUnmet)
}

// commit returns the state after a transaction at a revision, which is 0 if it is unknown.
func (w modelState) commit(transaction kv.Transaction, revision int64) (modelState, bool) {
	writes := slices.ContainsFunc(transaction.Then, func(operation kv.Operation) bool { return !operation.Delete })
	if revision != 0 && (revision < w.revision || writes && revision == w.revision) {
		return w, false
	}
	after := w.copy()
	written := knownEntry{version: revision}
	if after.revision = revision; revision == 0 {
		written.newerThan, after.revision = w.revision, w.revision
	}
	for _, operation := range transaction.Then {
		if !operation.Delete {
			written.value, written.session = operation.Value, operation.Session
			after.entries[operation.Key] = written
			continue
		}
		maps.DeleteFunc(after.entries, func(key string, _ knownEntry) bool {
			return key == operation.Key || operation.Below && keys.Within(operation.Key, key)
		})
	}
	return after, true
}

// end returns the state after the end of a session.
func (w modelState) end(session string) modelState {
	after := w.copy()
	after.ended[session] = true
	maps.DeleteFunc(after.entries, func(_ string, entry knownEntry) bool { return entry.session == session })
	return after
}

func (w modelState) equal(other modelState) bool {
	return w.revision == other.revision && maps.Equal(w.entries, other.entries) && maps.Equal(w.ended, other.ended)
}

func (w modelState) hash() uint64 {
	sum := uint64(w.revision) //nolint:gosec // any number will do
	for key, entry := range w.entries {
		hash := fnv.New64a()
		fmt.Fprint(hash, key, "\x00", entry.value, "\x00", entry.version)
		sum += hash.Sum64()
	}
	return sum + uint64(len(w.ended))
}

func (w modelState) String() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(w.entries)) {
		entry := w.entries[key]
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s=%q@%d %s", key, entry.value, entry.version, entry.session)))
	}
	return fmt.Sprintf("revision %d, %s", w.revision, strings.Join(all, ", "))
}
