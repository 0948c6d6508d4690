package ring

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// TokensPerShard is how often every shard stands on the ring. The more tokens, the more even the
// shares: their spread falls with the square root. With 4,000 the fullest of 50 shards has less
// than 1.10 times the mean of 100,000 keys in more than 95 of 100 sets of names (see the tests).
// Changing the number moves objects, so it is part of the contract between replicas.
const TokensPerShard = 4000

// separator stands between a shard's name and a token's number. It cannot be part of a name, so two
// shards cannot have a token in common, as shard-1 + 10 and shard-11 + 0 would without it.
const separator = 0

// indexBits is how many leading bits of a hash the index looks at.
const indexBits = 16

// Ring is a set of shards to choose from. The zero value has none.
type Ring struct {
	shards []string
	// leaving are members that no key belongs to any more.
	leaving []string
	// tokens are sorted, owners[i] is the shard at tokens[i].
	tokens []uint64
	owners []uint16
	// index[b] is the first token whose leading bits are b or more, so that a lookup looks at the
	// few tokens of one part of the ring instead of searching all.
	index []uint32
}

// New makes a ring of the given shards. Names that are given twice count once. Shards that are
// leaving are members too, but no key belongs to them.
func New(shards []string, leaving ...string) *Ring {
	r := &Ring{shards: sorted(shards), leaving: sorted(leaving)}
	if len(r.shards) == 0 {
		return r
	}
	r.place()
	r.makeIndex()
	return r
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// place puts the tokens of all shards on the ring.
func (r *Ring) place() {
	type placed struct {
		token uint64
		owner uint16
	}
	all := make([]placed, 0, len(r.shards)*TokensPerShard)
	var text []byte
	for owner, shard := range r.shards {
		for number := range TokensPerShard {
			text = append(append(text[:0], shard...), separator)
			text = strconv.AppendInt(text, int64(number), 10)
			all = append(all, placed{xxhash.Sum64(text), uint16(owner)})
		}
	}
	// Should two hashes be the same after all, the first name wins, whatever the order of the input.
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.owner, b.owner))
	})
	r.tokens, r.owners = make([]uint64, len(all)), make([]uint16, len(all))
	for i, p := range all {
		r.tokens[i], r.owners[i] = p.token, p.owner
	}
}

func (r *Ring) makeIndex() {
	r.index = make([]uint32, 1<<indexBits)
	position := 0
	for part := range r.index {
		for position < len(r.tokens) && r.tokens[position]>>(64-indexBits) < uint64(part) {
			position++
		}
		r.index[part] = uint32(position)
	}
}

// Owner returns the shard that a key belongs to, or "" if there are no shards.
func (r *Ring) Owner(key string) string {
	if len(r.shards) == 0 {
		return ""
	}
	hash := xxhash.Sum64String(key)
	position := int(r.index[hash>>(64-indexBits)])
	for position < len(r.tokens) && r.tokens[position] < hash {
		position++
	}
	if position == len(r.tokens) { // round the ring
		position = 0
	}
	return r.shards[r.owners[position]]
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
