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

// seed makes the random names the same in each run.
const seed = 20260101

// podNames returns names like those of a ReplicaSet's pods.
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

// ordinals returns names like those of a StatefulSet's pods.
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

// imbalance returns the highest number of keys of a shard, divided by the mean.
func imbalance(r *ring.Ring, keys []string) float64 {
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

func TestImbalance(t *testing.T) {
	t.Parallel()
	const sets, wanted, limit = 100, 95, 1.10
	all := keys(100_000)
	for style, name := range map[string]func(*rand.Rand, int) []string{"pods": podNames, "ordinals": ordinals} {
		for _, shards := range []int{3, 5, 10, 50} {
			t.Run(fmt.Sprintf("%d %s", shards, style), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, uint64(shards)))
				measured := make([]float64, sets)
				good := 0
				for i := range measured {
					measured[i] = imbalance(ring.New(name(random, shards)), all)
					if measured[i] <= limit {
						good++
					}
				}
				slices.Sort(measured)
				t.Logf("imbalance: p50 %.3f, p95 %.3f, max %.3f", measured[sets/2], measured[wanted-1], measured[sets-1])
				if good < wanted {
					t.Errorf("the imbalance is at most %.2f for %d of %d sets, want %d", limit, good, sets, wanted)
				}
			})
		}
	}
}

func TestOnlyKeysOfNewShardMove(t *testing.T) {
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
			t.Fatalf("%s moves from %s to %s, which is not the new shard", key, before, after)
		}
	}
	if share := float64(moved) * 11 / float64(len(all)); share < 0.8 || share > 1.2 {
		t.Errorf("%d of %d keys moved, %.2f times the mean", moved, len(all), share)
	}
}

func TestOrderAndDuplicatesDoNotMatter(t *testing.T) {
	names := ordinals(rand.New(rand.NewPCG(seed, 2)), 20)
	shuffled := slices.Concat(names, names[:5])
	rand.New(rand.NewPCG(seed, 3)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	one, two := ring.New(names), ring.New(shuffled)
	if diff := cmp.Diff(one.Shards(), two.Shards()); diff != "" {
		t.Fatal(diff)
	}
	for _, key := range keys(10_000) {
		if one.Owner(key) != two.Owner(key) {
			t.Fatalf("the owner of %s is %s or %s", key, one.Owner(key), two.Owner(key))
		}
	}
}

// TestNamesWithCommonPrefix has names that would share tokens without a separator before the number.
func TestNamesWithCommonPrefix(t *testing.T) {
	if got := imbalance(ring.New([]string{"shard-1", "shard-11", "shard-111"}), keys(100_000)); got > 1.10 {
		t.Errorf("the imbalance is %.2f", got)
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
		t.Error("Has is wrong about the members")
	}
}

// TestPlacementIsStable pins owners: a change would move the objects of every ring.
func TestPlacementIsStable(t *testing.T) {
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

func TestLeavingMemberOwnsNoKeys(t *testing.T) {
	with, without := ring.New([]string{"b", "a"}, "c"), ring.New([]string{"a", "b"})
	for i := range 1000 {
		key := strconv.Itoa(i)
		if got, want := with.Owner(key), without.Owner(key); got != want {
			t.Fatalf("the owner of %s is %s, want %s", key, got, want)
		}
	}
	if !with.Has("c") || !with.IsLeaving("c") || with.IsLeaving("a") || without.Has("c") {
		t.Error("c is not a leaving member")
	}
	if got := with.Members(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the members are %v", got)
	}
	if !with.Equal(ring.New([]string{"a", "b"}, "c")) || with.Equal(ring.New([]string{"a", "b", "c"})) {
		t.Error("rings with the same members in other roles are equal, or the order matters")
	}
	if got := ring.New(nil, "c").Owner("x"); got != "" {
		t.Errorf("all members are leaving, but %s owns keys", got)
	}
}

func TestCordonedMemberOwnsNoKeys(t *testing.T) {
	with, without := ring.Of(ring.Members{Shards: []string{"b", "a"}, Leaving: []string{"l"}, Cordoned: []string{"d", "c"}}), ring.New([]string{"a", "b"}, "l")
	for i := range 1000 {
		key := strconv.Itoa(i)
		if got, want := with.Owner(key), without.Owner(key); got != want {
			t.Fatalf("the owner of %s is %s, want %s", key, got, want)
		}
	}
	if !with.Has("c") || !with.IsCordoned("c") || with.IsLeaving("c") || with.IsCordoned("a") || with.IsCordoned("l") || without.Has("c") {
		t.Error("c is not a cordoned member")
	}
	if got := with.Members(); !slices.Equal(got, []string{"a", "b", "c", "d", "l"}) {
		t.Errorf("the members are %v", got)
	}
	if got := with.CordonedShards(); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("the cordoned members are %v", got)
	}
	if with.Equal(without) || !with.Equal(ring.Of(ring.Members{
		Shards: []string{"a", "b"}, Leaving: []string{"l"}, Cordoned: []string{"c", "d"},
	})) {
		t.Error("rings are equal although their members have other roles, or the order matters")
	}
	if got := ring.Of(ring.Members{Cordoned: []string{"c"}}).Owner("x"); got != "" {
		t.Errorf("all members are cordoned, but %s owns keys", got)
	}
}

// TestPlacementOfManyKeysIsStable pins the owners of many keys as a digest. Sharders and shards of
// different versions run side by side and must agree on each owner.
func TestPlacementOfManyKeysIsStable(t *testing.T) {
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
