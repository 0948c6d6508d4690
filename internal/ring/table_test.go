package ring

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// reference is a ring without a lookup table: the sorted tokens with all their bits.
type reference struct {
	tokens []uint64
	owners []int
}

func newReference(shards []string) *reference {
	type placed struct {
		token uint64
		owner int
	}
	var all []placed
	each(shards, func(owner int, token uint64) { all = append(all, placed{token, owner}) })
	slices.SortFunc(all, func(a, b placed) int { return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.owner, b.owner)) })
	r := &reference{}
	for _, p := range all {
		r.tokens, r.owners = append(r.tokens, p.token), append(r.owners, p.owner)
	}
	return r
}

func (r *reference) owner(hash uint64) int {
	position, _ := slices.BinarySearch(r.tokens, hash)
	return r.owners[position%len(r.owners)]
}

// find finds an owner as Ring.Owner does.
func find(shards []string, t *table, hash uint64) (owner int, ok bool) {
	if owner, ok = t.find(hash); ok {
		return owner, true
	}
	return search(shards, hash), false
}

// TestTableMatchesReference compares owners at, around and between tokens.
func TestTableMatchesReference(t *testing.T) {
	random := rand.New(rand.NewPCG(20260101, 7))
	for _, n := range []int{1, 2, 3, 10, 67} {
		shards := make([]string, n)
		for i := range shards {
			shards[i] = fmt.Sprintf("operator-%06d-%d", random.IntN(1_000_000), i)
		}
		slices.Sort(shards)
		want, got := newReference(shards), newTable(shards)
		check := func(hash uint64) (ok bool) {
			t.Helper()
			owner, ok := find(shards, got, hash)
			if expected := want.owner(hash); owner != expected {
				t.Fatalf("%d shards: the owner of %016x is %d, want %d", n, hash, owner, expected)
			}
			return ok
		}
		for range 100 {
			token := want.tokens[random.IntN(len(want.tokens))]
			for _, hash := range []uint64{token - 1, token, token + 1} {
				if check(hash) {
					t.Errorf("the table has an owner for %016x, although its entries lack the deciding bits", hash)
				}
			}
			check(token - ownerMask - 1)
			check(token + ownerMask + 1)
		}
		for _, hash := range []uint64{0, 1, ^uint64(0), want.tokens[0], want.tokens[len(want.tokens)-1] + 1<<ownerBits} {
			check(hash)
		}
		for range 100_000 {
			if !check(random.Uint64()) {
				t.Errorf("%d shards: the table has no owner for a random hash", n)
			}
		}
	}
}

// TestTokensWithEqualHighBits has tokens that differ only in the bits that entries lack.
func TestTokensWithEqualHighBits(t *testing.T) {
	same := &table{entries: []uint64{1<<40 | 3, 1<<40 | 5, 1<<41 | 1}, ends: []uint32{3, 3}, shift: 63}
	for name, test := range map[string]struct {
		hash  uint64
		owner int
		ok    bool
	}{
		"before both":               {1 << 39, 0, false},
		"at both":                   {1<<40 + 7, 0, false},
		"after both":                {1<<40 + 1<<16, 1, true},
		"around the ring, to both":  {1 << 42, 0, false},
		"around from the last part": {^uint64(0), 0, false},
	} {
		if owner, ok := same.find(test.hash); owner != test.owner || ok != test.ok {
			t.Errorf("%s: got %d, %t, want %d, %t", name, owner, ok, test.owner, test.ok)
		}
	}
}
