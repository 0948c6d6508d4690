package ring

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// TokensPerShard is how often every shard stands on the ring. The more tokens, the more even the
// shares: their spread falls with the square root. With 4,000 the fullest of 50 shards has less
// than 1.10 times the mean of 100,000 keys in more than 95 of 100 sets of names (see the tests).
// Changing the number moves objects, so it is part of the contract between replicas.
const TokensPerShard = 4000

// Ring is a set of shards to choose from. The zero value has none.
type Ring struct {
	shards []string
	// leaving are members that no key belongs to any more.
	leaving []string
	// tables builds and evicts the table if other rings share the memory for it, or is nil.
	tables *Tables

	building sync.Mutex // held while the table is built
	table    atomic.Pointer[table]
	used     atomic.Bool // since the Tables looked last
}

// New makes a ring of the given shards. Names that are given twice count once. Shards that are
// leaving are members too, but no key belongs to them.
func New(shards []string, leaving ...string) *Ring {
	return &Ring{shards: sorted(shards), leaving: sorted(leaving)}
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// Owner returns the shard that owns a key, or "" without shards. The first call builds
// the table of tokens, and other callers wait for it.
func (r *Ring) Owner(key string) string {
	switch len(r.shards) {
	case 0:
		return ""
	case 1:
		return r.shards[0] // no table needed
	}
	tokens := r.table.Load()
	if tokens == nil {
		tokens = r.build()
	}
	if r.tables != nil && !r.used.Load() {
		r.used.Store(true)
	}
	hash := xxhash.Sum64String(key)
	if tokens != nil {
		if owner, certain := tokens.find(hash); certain {
			return r.shards[owner]
		}
	}
	return r.shards[search(r.shards, hash)]
}

// build returns the table, and makes it unless another caller has done so meanwhile. It is nil without room for one.
func (r *Ring) build() *table {
	r.building.Lock()
	defer r.building.Unlock()
	if built := r.table.Load(); built != nil {
		return built
	}
	if r.tables != nil {
		return r.tables.add(r)
	}
	built := newTable(r.shards)
	r.table.Store(built)
	return built
}

// Shards returns the names of the shards that keys belong to, in order. They must not be changed.
func (r *Ring) Shards() []string { return r.shards }

// Members returns the names of all shards, leaving ones included, in order.
func (r *Ring) Members() []string { return sorted(slices.Concat(r.shards, r.leaving)) }

// Consists tells whether these are the shards of the ring, in any order.
func (r *Ring) Consists(shards, leaving []string) bool {
	return slices.Equal(r.shards, sorted(shards)) && slices.Equal(r.leaving, sorted(leaving))
}

// Has tells whether a shard is a member.
func (r *Ring) Has(shard string) bool {
	_, found := slices.BinarySearch(r.shards, shard)
	return found || r.Leaving(shard)
}

// AnyLeaving tells whether any member is leaving.
func (r *Ring) AnyLeaving() bool { return len(r.leaving) > 0 }

// Leaving tells whether a shard is a member that is leaving.
func (r *Ring) Leaving(shard string) bool {
	_, found := slices.BinarySearch(r.leaving, shard)
	return found
}
