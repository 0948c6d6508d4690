package ring_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/internal/ring"
)

// seed makes the random sets of names the same in each run.
const seed = 20260101

// podNames are like the names that a ReplicaSet gives.
func podNames(random *rand.Rand, n int) []string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	word := func(n int) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = letters[random.IntN(len(letters))]
		}
		return string(text)
	}
	prefix := "operator-" + word(8) + "-" + word(10) + "-"
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + word(5)
	}
	return names
}

// ordinals are like the names that a StatefulSet gives.
func ordinals(random *rand.Rand, n int) []string {
	prefix := "operator-" + strconv.Itoa(random.IntN(1_000_000)) + "-"
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i)
	}
	return names
}

func keys(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("webhosting.timebertt.dev/Website/project-%d/website-%d", i%100, i)
	}
	return all
}

// fullest is the share of the fullest shard, 1 being the mean.
func fullest(r *ring.Ring, keys []string) float64 {
	count := map[string]int{}
	for _, key := range keys {
		count[r.Owner(key)]++
	}
	most := 0
	for _, n := range count {
		most = max(most, n)
	}
	return float64(most) * float64(len(r.Shards())) / float64(len(keys))
}

func TestShares(t *testing.T) {
	t.Parallel()
	const sets, enough, limit = 100, 95, 1.10
	all := keys(100_000)
	for style, name := range map[string]func(*rand.Rand, int) []string{"pods": podNames, "ordinals": ordinals} {
		for _, shards := range []int{3, 5, 10, 50} {
			t.Run(fmt.Sprintf("%d %s", shards, style), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, uint64(shards)))
				shares := make([]float64, sets)
				good := 0
				for i := range shares {
					shares[i] = fullest(ring.New(name(random, shards)), all)
					if shares[i] <= limit {
						good++
					}
				}
				slices.Sort(shares)
				t.Logf("fullest shard: median %.3f, 95th %.3f, worst %.3f of the mean", shares[sets/2], shares[enough-1], shares[sets-1])
				if good < enough {
					t.Errorf("in %d of %d sets the fullest shard has at most %.2f of the mean, want %d", good, sets, limit, enough)
				}
			})
		}
	}
}

// TestChange adds and removes a shard and looks at every key that moves.
func TestChange(t *testing.T) {
	all := keys(20_000)
	random := rand.New(rand.NewPCG(seed, 1))
	names := podNames(random, 11)
	without, with := ring.New(names[:10]), ring.New(names)
	added := names[10]
	moved := 0
	for _, key := range all {
		before, after := without.Owner(key), with.Owner(key)
		if before == after {
			continue
		}
		moved++
		if after != added {
			t.Fatalf("%s moves from %s to %s, which was there before", key, before, after)
		}
	}
	if share := float64(moved) * 11 / float64(len(all)); share < 0.8 || share > 1.2 {
		t.Errorf("%d of %d keys moved, %.2f of the new shard's share", moved, len(all), share)
	}
}

func TestOrderAndRepetitionDoNotMatter(t *testing.T) {
	names := ordinals(rand.New(rand.NewPCG(seed, 2)), 20)
	shuffled := slices.Concat(names, names[:5])
	rand.New(rand.NewPCG(seed, 3)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	one, two := ring.New(names), ring.New(shuffled)
	if diff := cmp.Diff(one.Shards(), two.Shards()); diff != "" {
		t.Fatal(diff)
	}
	for _, key := range keys(10_000) {
		if one.Owner(key) != two.Owner(key) {
			t.Fatalf("%s belongs to %s and to %s", key, one.Owner(key), two.Owner(key))
		}
	}
}

// TestNamesThatRunTogether takes names that would share tokens if name and number were just
// written one after the other.
func TestNamesThatRunTogether(t *testing.T) {
	if share := fullest(ring.New([]string{"shard-1", "shard-11", "shard-111"}), keys(100_000)); share > 1.10 {
		t.Errorf("the fullest shard has %.2f of the mean", share)
	}
}

func TestSmallRings(t *testing.T) {
	if owner := new(ring.Ring).Owner("key"); owner != "" {
		t.Errorf("on an empty ring the owner is %q", owner)
	}
	if owner := ring.New(nil).Owner("key"); owner != "" {
		t.Errorf("without shards the owner is %q", owner)
	}
	one := ring.New([]string{"only"})
	if owner := one.Owner("key"); owner != "only" {
		t.Errorf("with one shard the owner is %q", owner)
	}
	if !one.Has("only") || one.Has("other") {
		t.Error("it does not know who is on it")
	}
}

// TestPlacement pins owners down: another answer would move every user's objects.
func TestPlacement(t *testing.T) {
	r := ring.New([]string{"a", "b", "c"})
	var owners []string
	for _, key := range keys(20) {
		owners = append(owners, r.Owner(key))
	}
	if got, want := strings.Join(owners, ""), "acbbcabbbbaaabbcbcac"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	r, all := ring.New(ordinals(rand.New(rand.NewPCG(seed, 4)), 100)), keys(1)
	r.Owner(all[0]) // builds the table
	if n := testing.AllocsPerRun(1000, func() { r.Owner(all[0]) }); n != 0 {
		t.Errorf("a lookup allocates %v times", n)
	}
}

func BenchmarkOwner(b *testing.B) {
	r, all := ring.New(ordinals(rand.New(rand.NewPCG(seed, 5)), 100)), keys(100_000)
	r.Owner(all[0]) // builds the table
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Owner(all[i%len(all)])
	}
}

func BenchmarkFirstOwner(b *testing.B) {
	names := ordinals(rand.New(rand.NewPCG(seed, 5)), 100)
	b.ReportAllocs()
	for b.Loop() {
		ring.New(names).Owner("key")
	}
}

// TestLeaving has a member that no key belongs to: the others have the same keys as without it.
func TestLeaving(t *testing.T) {
	with, without := ring.New([]string{"b", "a"}, "c"), ring.New([]string{"a", "b"})
	for i := range 1000 {
		key := strconv.Itoa(i)
		if got, want := with.Owner(key), without.Owner(key); got != want {
			t.Fatalf("%s belongs to %s, not to %s", key, got, want)
		}
	}
	if !with.Has("c") || !with.Leaving("c") || with.Leaving("a") || without.Has("c") {
		t.Error("c is a member that is leaving")
	}
	if got := with.Members(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the members are %v", got)
	}
	if !with.Consists([]string{"a", "b"}, []string{"c"}) || with.Consists([]string{"a", "b", "c"}, nil) {
		t.Error("it consists of a, b and, leaving, c")
	}
	if got := ring.New(nil, "c").Owner("x"); got != "" {
		t.Errorf("everybody leaves, but %s gets keys", got)
	}
}

// TestCordoned has a member that no key belongs to, and that is not leaving either.
func TestCordoned(t *testing.T) {
	with, without := ring.Of(ring.Members{Shards: []string{"b", "a"}, Leaving: []string{"l"}, Cordoned: []string{"d", "c"}}), ring.New([]string{"a", "b"}, "l")
	for i := range 1000 {
		key := strconv.Itoa(i)
		if got, want := with.Owner(key), without.Owner(key); got != want {
			t.Fatalf("%s belongs to %s, not to %s", key, got, want)
		}
	}
	if !with.Has("c") || !with.Cordoned("c") || with.Leaving("c") || with.Cordoned("a") || with.Cordoned("l") || without.Has("c") {
		t.Error("c is a member that is cordoned")
	}
	if got := with.Members(); !slices.Equal(got, []string{"a", "b", "c", "d", "l"}) {
		t.Errorf("the members are %v", got)
	}
	if got := with.AllCordoned(); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("%v are cordoned", got)
	}
	if with.Equal(without) || with.Consists([]string{"a", "b"}, []string{"l"}) || !with.Equal(ring.Of(ring.Members{
		Shards: []string{"a", "b"}, Leaving: []string{"l"}, Cordoned: []string{"c", "d"},
	})) {
		t.Error("rings are equal if they have the same members in the same roles")
	}
	if got := ring.Of(ring.Members{Cordoned: []string{"c"}}).Owner("x"); got != "" {
		t.Errorf("all are cordoned, but %s gets keys", got)
	}
}

// TestPlacementOfManyShards pins down the owners of many keys as a digest. Versions of the sharder and
// of shards run side by side, so that they must agree on each.
func TestPlacementOfManyShards(t *testing.T) {
	for shards, want := range map[int]uint64{10: 0x6f1de94d23e15d17, 200: 0x6994b6c8f08fc7d2} {
		names := make([]string, shards)
		for i := range names {
			names[i] = fmt.Sprintf("operator-%d", i)
		}
		r, digest := ring.New(names), xxhash.New()
		for _, key := range keys(10_000) {
			fmt.Fprintln(digest, r.Owner(key))
		}
		if got := digest.Sum64(); got != want {
			t.Errorf("%d shards: %#x, want %#x", shards, got, want)
		}
	}
}
