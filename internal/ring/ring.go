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
	// leaving and cordoned are members that no key belongs to any more.
	leaving, cordoned []string
	// tables builds and evicts the table if other rings share the memory for it, or is nil.
	tables *Tables

	building sync.Mutex // held while the table is built
	table    atomic.Pointer[table]
	used     atomic.Bool // since the Tables looked last
}

// Members are the live shards of a ring. All of them keep the objects that they own until they have
// released them; they differ in what they get and in who moves their objects.
type Members struct {
	// Shards own keys.
	Shards []string
	// Leaving shards own no key, and hand their objects over by themselves: they are not asked to.
	Leaving []string
	// Cordoned shards own no key, and do not know it: they are asked to release their objects.
	Cordoned []string
}

// New makes a ring of the given shards. Names that are given twice count once. Shards that are
// leaving are members too, but no key belongs to them.
func New(shards []string, leaving ...string) *Ring {
	return Of(Members{Shards: shards, Leaving: leaving})
}

// Of makes a ring of members.
func Of(members Members) *Ring {
	return &Ring{shards: sorted(members.Shards), leaving: sorted(members.Leaving), cordoned: sorted(members.Cordoned)}
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

// Members returns the names of all shards, leaving and cordoned ones included, in order.
func (r *Ring) Members() []string { return sorted(slices.Concat(r.shards, r.leaving, r.cordoned)) }

// Consists tells whether these are the shards of the ring, in any order.
func (r *Ring) Consists(shards, leaving []string) bool { return r.Equal(New(shards, leaving...)) }

// Equal tells whether two rings have the same members.
func (r *Ring) Equal(other *Ring) bool {
	return slices.Equal(r.shards, other.shards) && slices.Equal(r.leaving, other.leaving) && slices.Equal(r.cordoned, other.cordoned)
}

// Has tells whether a shard is a member.
func (r *Ring) Has(shard string) bool {
	_, found := slices.BinarySearch(r.shards, shard)
	return found || r.Leaving(shard) || r.Cordoned(shard)
}

// AnyLeaving tells whether any member is leaving.
func (r *Ring) AnyLeaving() bool { return len(r.leaving) > 0 }

// Leaving tells whether a shard is a member that is leaving.
func (r *Ring) Leaving(shard string) bool {
	_, found := slices.BinarySearch(r.leaving, shard)
	return found
}

// AllCordoned returns the names of the members that are cordoned, in order. They must not be changed.
func (r *Ring) AllCordoned() []string { return r.cordoned }

// Cordoned tells whether a shard is a member that is cordoned.
func (r *Ring) Cordoned(shard string) bool {
	_, found := slices.BinarySearch(r.cordoned, shard)
	return found
}
