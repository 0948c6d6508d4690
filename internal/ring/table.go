package ring

import (
	"math/bits"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// separator separates a shard's name from a token's number. Without it, shard-1 with the number 10
// and shard-11 with the number 0 would have the same token. Names cannot contain it.
const separator = 0

const (
	// ownerBits is the number of low bits of an entry that hold the owner instead of the token's own
	// low bits, so that an entry has 8 bytes and needs no second array when entries are sorted.
	ownerBits = 16
	ownerMask = 1<<ownerBits - 1
	// partSize is the approximate number of entries in one part of the index.
	partSize = 4
)

// table is the lookup table: the sorted tokens of all shards, with an index.
type table struct {
	// entries are the high bits of the tokens, each with the index of its owner in the low bits.
	entries []uint64
	// ends[p] is the end of part p: the entries whose highest bits are p. A lookup reads a few
	// entries instead of searching all.
	ends  []uint32
	shift int // hash>>shift is the number of its part
}

// newTable returns the table of some shards. It hashes each token twice, first to count the entries
// of each part and then to place them, which needs no memory besides the table.
func newTable(shards []string) *table {
	count := len(shards) * TokensPerShard
	partBits := max(bits.Len(uint(count/partSize)), 1)
	t := &table{entries: make([]uint64, count), ends: make([]uint32, 1<<partBits), shift: 64 - partBits}
	each(shards, func(_ int, token uint64) { t.ends[token>>t.shift]++ })
	start := uint32(0)
	for part, size := range t.ends {
		t.ends[part] = start // the end of the entries placed so far
		start += size
	}
	each(shards, func(owner int, token uint64) {
		part := token >> t.shift
		t.entries[t.ends[part]] = token&^ownerMask | uint64(owner) //nolint:gosec // the index of a shard is small
		t.ends[part]++
	})
	start = 0
	for _, end := range t.ends {
		slices.Sort(t.entries[start:end])
		start = end
	}
	return t
}

// each calls a function with all tokens of all shards.
func each(shards []string, place func(owner int, token uint64)) {
	var text []byte
	for owner, shard := range shards {
		text = append(append(text[:0], shard...), separator)
		prefix := len(text)
		for number := range TokensPerShard {
			text = strconv.AppendInt(text[:prefix], int64(number), 10)
			place(owner, xxhash.Sum64(text))
		}
	}
}

// find returns the owner of the first token at or after a hash, around the ring. ok is false if the
// owner depends on the low bits that entries do not have; then use search.
func (t *table) find(hash uint64) (owner int, ok bool) {
	position := 0
	if part := hash >> t.shift; part > 0 {
		position = int(t.ends[part-1])
	}
	for position < len(t.entries) && t.entries[position]>>ownerBits < hash>>ownerBits {
		position++
	}
	if position == len(t.entries) {
		position = 0
	} else if t.entries[position]>>ownerBits == hash>>ownerBits {
		return 0, false
	}
	next := position + 1
	if next < len(t.entries) && t.entries[next]>>ownerBits == t.entries[position]>>ownerBits {
		return 0, false
	}
	return int(t.entries[position] & ownerMask), true
}

// search is find without a table. If two shards have the same token, the first name in order owns it.
func search(shards []string, hash uint64) (owner int) {
	// The distance from the hash to a token wraps around as the ring does.
	nearest := ^uint64(0)
	each(shards, func(candidate int, token uint64) {
		if distance := token - hash; distance < nearest {
			owner, nearest = candidate, distance
		}
	})
	return owner
}
