package ring

import (
	"slices"
	"sync"
	"weak"
)

// Tables bounds the memory of the lookup tables of many rings. It evicts tables that are not used,
// and the next lookup builds them again. While all memory is in use, the other rings are searched
// without a table. It is safe for concurrent use.
type Tables struct {
	// limit is the maximum number of tokens. A single table may exceed it.
	limit int
	// onBuild is called before each build of a table, by the goroutine that looks up a key.
	onBuild func()

	mu sync.Mutex
	// rings are those with a table. The pointers are weak, so that replaced rings are collected.
	rings []weak.Pointer[Ring]
}

// NewTables returns Tables with a maximum number of tokens. onBuild is called before each build of a
// table.
func NewTables(limit int, onBuild func()) *Tables { return &Tables{limit: limit, onBuild: onBuild} }

// Of returns a ring of members whose table can be evicted.
func (t *Tables) Of(members Members) *Ring {
	r := Of(members)
	r.tables = t
	return r
}

// add builds a ring's table, after it has evicted unused ones. It returns nil if all others are in
// use: building them in turns would cost more than searching without a table.
func (t *Tables) add(to *Ring) *table {
	t.mu.Lock()
	tokens := t.evict(t.limit - to.tokens())
	full := tokens > 0 && tokens+to.tokens() > t.limit
	t.mu.Unlock()
	if full {
		return nil
	}
	t.onBuild()
	built := newTable(to.shards)
	t.mu.Lock()
	defer t.mu.Unlock()
	to.used.Store(true)
	to.table.Store(built)
	t.rings = append(t.rings, weak.Make(to))
	return built
}

// evict removes tables that were not used since the last EvictUnused, the oldest first, until the
// others have at most limit tokens. It returns their number of tokens.
func (t *Tables) evict(limit int) (tokens int) {
	tokens = t.compact()
	t.rings = slices.DeleteFunc(t.rings, func(pointer weak.Pointer[Ring]) bool {
		r := pointer.Value()
		if r == nil || tokens <= limit || r.used.Load() {
			return r == nil
		}
		r.table.Store(nil)
		tokens -= r.tokens()
		return true
	})
	return tokens
}

// compact removes rings that were collected. It returns the number of tokens of the others.
func (t *Tables) compact() (tokens int) {
	t.rings = slices.DeleteFunc(t.rings, func(pointer weak.Pointer[Ring]) bool {
		r := pointer.Value()
		if r != nil {
			tokens += r.tokens()
		}
		return r == nil
	})
	return tokens
}

// EvictUnused evicts the tables that were not used since its last call. It returns the number of
// remaining tables.
func (t *Tables) EvictUnused() (remaining int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rings = slices.DeleteFunc(t.rings, func(pointer weak.Pointer[Ring]) bool {
		r := pointer.Value()
		if r == nil || r.used.Swap(false) {
			return r == nil
		}
		r.table.Store(nil)
		return true
	})
	return len(t.rings)
}

// tokens returns the number of tokens in the ring's table.
func (r *Ring) tokens() int { return len(r.shards) * TokensPerShard }
