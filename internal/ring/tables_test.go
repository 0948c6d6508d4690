package ring

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// builds counts tables.
type builds struct {
	*Tables
	n atomic.Int64
}

func newBuilds(shards int) *builds {
	b := &builds{}
	b.Tables = NewTables(shards*TokensPerShard, func() { b.n.Add(1) })
	return b
}

// New makes a ring of shards.
func (b *builds) New(shards []string, leaving ...string) *Ring {
	return b.Of(Members{Shards: shards, Leaving: leaving})
}

// ask makes a ring be used, and tells whether its table had to be built.
func (b *builds) ask(r *Ring) bool {
	before := b.n.Load()
	r.Owner("key")
	return b.n.Load() != before
}

func TestTableIsBuiltOnceAndOnDemand(t *testing.T) {
	b := newBuilds(10)
	r := b.New([]string{"a", "b", "c"}, "d")
	if b.n.Load() != 0 || r.table.Load() != nil {
		t.Error("a table was built for nobody")
	}
	want := New([]string{"a", "b", "c"})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 100 {
				if key := fmt.Sprint(i, j); r.Owner(key) != want.Owner(key) {
					t.Errorf("%s belongs to %s", key, r.Owner(key))
				}
			}
		})
	}
	group.Wait()
	if b.n.Load() != 1 {
		t.Errorf("%d tables were built", b.n.Load())
	}
	for _, small := range []*Ring{b.New(nil, "d"), b.New([]string{"only"})} {
		if b.ask(small) {
			t.Errorf("a table was built for %v", small.Members())
		}
	}
}

func TestTablesAreBounded(t *testing.T) {
	b := newBuilds(6)
	rings := make([]*Ring, 4)
	for i := range rings {
		rings[i] = b.New([]string{"a", strconv.Itoa(i)})
	}
	kept := func() (n int) {
		for _, r := range rings {
			if r.table.Load() != nil {
				n++
			}
		}
		return n
	}
	for _, r := range rings[:3] {
		b.ask(r)
	}
	if kept() != 3 {
		t.Fatalf("%d tables are kept, and there is room for three", kept())
	}
	b.EvictUnused() // all of them have been used
	b.ask(rings[0])
	b.ask(rings[2])
	if !b.ask(rings[3]) || kept() != 3 || rings[1].table.Load() != nil {
		t.Error("the one that was not used should have gone")
	}
	for range 100 {
		for _, r := range rings {
			if b.ask(r) {
				t.Fatal("tables that are in use are evicted and built in turns")
			}
			if want := New(r.shards).Owner("key"); r.Owner("key") != want {
				t.Fatal("without a table another shard is found")
			}
		}
	}
	if kept() != 3 {
		t.Fatalf("%d tables are kept", kept())
	}
	large := b.New([]string{"a", "b", "c", "d", "e", "f", "g", "h"})
	if b.ask(large) {
		t.Error("a table was built although the others are in use")
	}
	b.EvictUnused()
	b.EvictUnused()
	if !b.ask(large) || b.ask(large) || kept() != 0 {
		t.Error("a table that is larger than the limit is kept, and alone")
	}
	runtime.KeepAlive(rings)
}

func TestUnusedTablesAreEvicted(t *testing.T) {
	b := newBuilds(100)
	busy, idle := b.New([]string{"a", "b"}), b.New([]string{"a", "c"})
	b.ask(busy)
	b.ask(idle)
	if left := b.EvictUnused(); left != 2 {
		t.Errorf("%d are left, and both have just been used", left)
	}
	b.ask(busy)
	if left := b.EvictUnused(); left != 1 || idle.table.Load() != nil || busy.table.Load() == nil {
		t.Errorf("%d are left, and it should be the one that is used", left)
	}
	if !b.ask(idle) {
		t.Error("the other one was not built again")
	}
	b.EvictUnused()
	if left := b.EvictUnused(); left != 0 {
		t.Errorf("%d are left that nobody uses", left)
	}
}

// TestReplacedRingIsNotKept has rings that nobody knows any more, as after each change of members.
func TestReplacedRingIsNotKept(t *testing.T) {
	b := newBuilds(1000)
	for i := range 10 {
		b.ask(b.New([]string{"a", strconv.Itoa(i)}))
	}
	runtime.GC()
	b.ask(b.New([]string{"a", "b"}))
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.compact(); len(b.kept) > 1 {
		t.Errorf("%d tables are kept", len(b.kept))
	}
}

func TestEvictionWhileInUse(t *testing.T) {
	b, want := newBuilds(1), New([]string{"a", "b"})
	rings := []*Ring{b.New([]string{"a", "b"}), b.New([]string{"b", "a"}), b.New([]string{"a", "b"}, "c")}
	var group sync.WaitGroup
	for i, r := range rings {
		group.Go(func() {
			for j := range 50 {
				if key := fmt.Sprint(i, j); r.Owner(key) != want.Owner(key) {
					t.Errorf("%s belongs to %s", key, r.Owner(key))
				}
				b.EvictUnused()
			}
		})
	}
	group.Wait()
}
