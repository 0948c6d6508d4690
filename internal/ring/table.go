package ring

import (
	"math/bits"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// separator stands between a shard's name and a token's number. It cannot be part of a name, so two
// shards cannot have a token in common, as shard-1 + 10 and shard-11 + 0 would without it.
const separator = 0

const (
	// ownerBits are the low bits of an entry, which hold the owner instead of the token's own. An
	// entry thus takes 8 bytes, and entries are sorted without a second array beside them.
	ownerBits = 16
	ownerMask = 1<<ownerBits - 1
	// partSize is about how many entries one part of the index has.
	partSize = 4
)

// table is the tokens of all shards in order.
type table struct {
	// entries are the leading bits of the tokens, each with the number of its owner.
	entries []uint64
	// ends[p] is where part p of the entries ends: those whose leading bits are p. A lookup thus looks
	// at a few entries instead of searching all.
	ends  []uint32
	shift int // of a hash, so that the number of its part remains
}

// newTable places the tokens of all shards. Tokens are hashed twice, once to know how many each part
// has and once to put them there, because that takes no memory beside the table.
func newTable(shards []string) *table {
	count := len(shards) * TokensPerShard
	partBits := max(bits.Len(uint(count/partSize)), 1)
	t := &table{entries: make([]uint64, count), ends: make([]uint32, 1<<partBits), shift: 64 - partBits}
	each(shards, func(_ int, token uint64) { t.ends[token>>t.shift]++ })
	start := uint32(0)
	for part, size := range t.ends {
		t.ends[part] = start // its end when all its entries are there
		start += size
	}
	each(shards, func(owner int, token uint64) {
		part := token >> t.shift
		t.entries[t.ends[part]] = token&^ownerMask | uint64(owner) //nolint:gosec // it is the index of a shard
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

// find returns the owner of the first token at or after a hash, around the ring. It is not certain if
// the bits that entries do not hold could decide it; search knows then.
func (t *table) find(hash uint64) (owner int, certain bool) {
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

// search returns the owner of the first token at or after a hash, around the ring, without a table.
// Should two tokens be the same after all, the first name wins, whatever the order of the input.
func search(shards []string, hash uint64) (owner int) {
	// The distance from the hash to a token, around the ring. The subtraction wraps around as the ring does.
	nearest := ^uint64(0)
	each(shards, func(candidate int, token uint64) {
		if distance := token - hash; distance < nearest {
			owner, nearest = candidate, distance
		}
	})
	return owner
}
