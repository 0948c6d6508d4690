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

// world is what a store is at one moment, as far as its clients can know. It is never changed, only copied.
type world struct {
	// revision is the least that the store's revision can be. Others may use the same store below other paths, so
	// it may be more.
	revision int64
	entries  map[string]fact
	ended    map[string]bool
}

// fact is what is known of an entry.
type fact struct {
	value, session string
	// version is 0 while it is not known. It is more than after then, which is 0 otherwise.
	version, after int64
}

// mayBe tells whether the entry can have a version.
func (f fact) mayBe(version int64) bool {
	return version != 0 && (f.version == version || f.version == 0 && version > f.after)
}

func newWorld() world { return world{} }

func (w world) copy() world {
	w.entries, w.ended = maps.Clone(w.entries), maps.Clone(w.ended)
	if w.entries == nil {
		w.entries = map[string]fact{}
	}
	if w.ended == nil {
		w.ended = map[string]bool{}
	}
	return w
}

// read returns the world after a read has shown the snapshot, if it can have.
func (w world) read(paths []string, snapshot *kv.Snapshot) (world, bool) {
	if snapshot.Revision < w.revision {
		return w, false
	}
	after := w.copy()
	after.revision = snapshot.Revision
	shown := 0
	for key, is := range w.entries {
		if !slices.ContainsFunc(paths, func(path string) bool { return keys.Within(path, key) }) {
			continue
		}
		entry, there := snapshot.Entries[key]
		if !there || entry.Value != is.value || entry.Session != is.session || !is.mayBe(entry.Version) || entry.Version > snapshot.Revision {
			return w, false
		}
		shown++
		is.version, is.after = entry.Version, 0
		after.entries[key] = is
	}
	return after, shown == len(snapshot.Entries)
}

// mayMeet tells whether a condition can be met, and mayMiss whether it can be unmet.
func (w world) mayMeet(condition kv.Condition) bool {
	if condition.Key != "" {
		is, there := w.entries[condition.Key]
		return there && is.mayBe(condition.Version) || !there && condition.Version == 0
	}
	return !w.anyBelow(condition.Path, func(is fact) bool { return max(is.version, is.after+1) > condition.Since })
}

func (w world) mayMiss(condition kv.Condition) bool {
	if condition.Key != "" {
		is, there := w.entries[condition.Key]
		return there && (is.version == 0 || is.version != condition.Version) || !there && condition.Version != 0
	}
	return w.anyBelow(condition.Path, func(is fact) bool { return is.version == 0 || is.version > condition.Since })
}

func (w world) anyBelow(path string, is func(fact) bool) bool {
	for key, entry := range w.entries {
		if keys.Within(path, key) && is(entry) {
			return true
		}
	}
	return false
}

// mayCommit tells whether a transaction can be done.
func (w world) mayCommit(transaction kv.Transaction) bool {
	for _, operation := range transaction.Then {
		if w.ended[operation.Session] {
			return false
		}
	}
	return !slices.ContainsFunc(transaction.If, func(condition kv.Condition) bool { return !w.mayMeet(condition) })
}

// mayConflict tells whether a transaction can be refused for its conditions.
func (w world) mayConflict(transaction kv.Transaction) bool {
	return slices.ContainsFunc(transaction.If, w.mayMiss)
}

// commit returns the world after a transaction was done at a revision, or at one that is not known, which is 0.
func (w world) commit(transaction kv.Transaction, revision int64) (world, bool) {
	writes := slices.ContainsFunc(transaction.Then, func(operation kv.Operation) bool { return !operation.Delete })
	if revision != 0 && (revision < w.revision || writes && revision == w.revision) {
		return w, false
	}
	after := w.copy()
	written := fact{version: revision}
	if after.revision = revision; revision == 0 {
		written.after, after.revision = w.revision, w.revision
	}
	for _, operation := range transaction.Then {
		if !operation.Delete {
			written.value, written.session = operation.Value, operation.Session
			after.entries[operation.Key] = written
			continue
		}
		maps.DeleteFunc(after.entries, func(key string, _ fact) bool {
			return key == operation.Key || operation.Below && keys.Within(operation.Key, key)
		})
	}
	return after, true
}

// end returns the world after a session has ended.
func (w world) end(session string) world {
	after := w.copy()
	after.ended[session] = true
	maps.DeleteFunc(after.entries, func(_ string, is fact) bool { return is.session == session })
	return after
}

func (w world) equal(other world) bool {
	return w.revision == other.revision && maps.Equal(w.entries, other.entries) && maps.Equal(w.ended, other.ended)
}

func (w world) hash() uint64 {
	sum := uint64(w.revision) //nolint:gosec // any number will do
	for key, is := range w.entries {
		hash := fnv.New64a()
		fmt.Fprint(hash, key, "\x00", is.value, "\x00", is.version)
		sum += hash.Sum64()
	}
	return sum + uint64(len(w.ended))
}

func (w world) String() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(w.entries)) {
		is := w.entries[key]
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s=%q@%d %s", key, is.value, is.version, is.session)))
	}
	return fmt.Sprintf("revision %d, %s", w.revision, strings.Join(all, ", "))
}
