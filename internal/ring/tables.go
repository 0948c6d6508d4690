package ring

import (
	"slices"
	"sync"
	"weak"
)

// Tables bounds the memory of the token tables of many rings. A table is built when the first owner is
// asked for and evicted when it has not been used for a while, or when others need the memory: the
// next question builds it again. While all memory is in use, other rings are searched without a table.
// All methods may be called from several goroutines.
type Tables struct {
	// limit is how many tokens are kept. One table is kept even if it alone has more.
	limit int
	// built is called before each table is built, by the caller who needs it.
	built func()

	mu sync.Mutex
	// kept have a table. The pointers are weak, so that replaced rings are collected.
	kept []weak.Pointer[Ring]
}

// NewTables returns Tables with a limit of tokens to keep. The function is called before each build.
func NewTables(limit int, built func()) *Tables { return &Tables{limit: limit, built: built} }

// Of is like the package's function, for a ring whose table can be evicted.
func (t *Tables) Of(members Members) *Ring {
	made := Of(members)
	made.tables = t
	return made
}

// add builds a ring's table, and evicts unused ones first to make room. It returns nil if there is none because all others
// are in use: building them in turns would cost more than searching without a table.
func (t *Tables) add(to *Ring) *table {
	t.mu.Lock()
	tokens := t.evict(t.limit - to.tokens())
	full := tokens > 0 && tokens+to.tokens() > t.limit
	t.mu.Unlock()
	if full {
		return nil
	}
	t.built()
	made := newTable(to.shards)
	t.mu.Lock()
	defer t.mu.Unlock()
	to.used.Store(true)
	to.table.Store(made)
	t.kept = append(t.kept, weak.Make(to))
	return made
}

// evict removes tables that were not used since EvictUnused was called last, the oldest first, until the others have at most
// limit tokens. It returns how many they have.
func (t *Tables) evict(limit int) (tokens int) {
	tokens = t.compact()
	t.kept = slices.DeleteFunc(t.kept, func(pointer weak.Pointer[Ring]) bool {
		known := pointer.Value()
		if known == nil || tokens <= limit || known.used.Load() {
			return known == nil
		}
		known.table.Store(nil)
		tokens -= known.tokens()
		return true
	})
	return tokens
}

// compact forgets rings that nobody uses any more, and counts the tokens of the others.
func (t *Tables) compact() (tokens int) {
	kept := t.kept[:0]
	for _, pointer := range t.kept {
		if known := pointer.Value(); known != nil {
			kept = append(kept, pointer)
			tokens += known.tokens()
		}
	}
	clear(t.kept[len(kept):])
	t.kept = kept
	return tokens
}

// EvictUnused evicts the tables that were not used since its last call, and tells how many there are still.
func (t *Tables) EvictUnused() (left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.kept[:0]
	for _, pointer := range t.kept {
		known := pointer.Value()
		switch {
		case known == nil:
		case known.used.Swap(false):
			kept = append(kept, pointer)
		default:
			known.table.Store(nil)
		}
	}
	clear(t.kept[len(kept):])
	t.kept = kept
	return len(kept)
}

// tokens is the size of the ring's table.
func (r *Ring) tokens() int { return len(r.shards) * TokensPerShard }
