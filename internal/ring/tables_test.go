package ring

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// countingTables counts how many tables are built.
type countingTables struct {
	*Tables
	builds atomic.Int64
}

// newCountingTables returns Tables with room for some shards.
func newCountingTables(shards int) *countingTables {
	c := &countingTables{}
	c.Tables = NewTables(shards*TokensPerShard, func() { c.builds.Add(1) })
	return c
}

// New returns a ring of shards.
func (c *countingTables) New(shards []string, leaving ...string) *Ring {
	return c.Of(Members{Shards: shards, Leaving: leaving})
}

// lookUp looks up a key in a ring, and reports whether the ring's table was built for that.
func (c *countingTables) lookUp(r *Ring) (built bool) {
	before := c.builds.Load()
	r.Owner("key")
	return c.builds.Load() != before
}

func TestTableIsBuiltOnceAndOnDemand(t *testing.T) {
	c := newCountingTables(10)
	r := c.New([]string{"a", "b", "c"}, "d")
	if c.builds.Load() != 0 || r.table.Load() != nil {
		t.Error("a table was built before the first lookup")
	}
	want := New([]string{"a", "b", "c"})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 100 {
				if key := fmt.Sprint(i, j); r.Owner(key) != want.Owner(key) {
					t.Errorf("the owner of %s is %s, want %s", key, r.Owner(key), want.Owner(key))
				}
			}
		})
	}
	group.Wait()
	if c.builds.Load() != 1 {
		t.Errorf("%d tables were built, want 1", c.builds.Load())
	}
	for _, small := range []*Ring{c.New(nil, "d"), c.New([]string{"only"})} {
		if c.lookUp(small) {
			t.Errorf("a table was built for %v", small.Members())
		}
	}
}

func TestTablesAreBounded(t *testing.T) {
	c := newCountingTables(6)
	rings := make([]*Ring, 4)
	for i := range rings {
		rings[i] = c.New([]string{"a", strconv.Itoa(i)})
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
		c.lookUp(r)
	}
	if kept() != 3 {
		t.Fatalf("%d tables are kept, want 3", kept())
	}
	c.EvictUnused() // evicts none: all have been used
	c.lookUp(rings[0])
	c.lookUp(rings[2])
	if !c.lookUp(rings[3]) || kept() != 3 || rings[1].table.Load() != nil {
		t.Error("the unused table was not evicted")
	}
	for range 100 {
		for _, r := range rings {
			if c.lookUp(r) {
				t.Fatal("tables in use are evicted and built in turns")
			}
			if want := New(r.shards).Owner("key"); r.Owner("key") != want {
				t.Fatal("the owner differs without a table")
			}
		}
	}
	if kept() != 3 {
		t.Fatalf("%d tables are kept, want 3", kept())
	}
	large := c.New([]string{"a", "b", "c", "d", "e", "f", "g", "h"})
	if c.lookUp(large) {
		t.Error("a table was built although the others are in use")
	}
	c.EvictUnused()
	c.EvictUnused()
	if !c.lookUp(large) || c.lookUp(large) || kept() != 0 {
		t.Error("a table larger than the limit is not kept, or other tables are kept besides")
	}
	runtime.KeepAlive(rings)
}

func TestUnusedTablesAreEvicted(t *testing.T) {
	c := newCountingTables(100)
	used, unused := c.New([]string{"a", "b"}), c.New([]string{"a", "c"})
	c.lookUp(used)
	c.lookUp(unused)
	if n := c.EvictUnused(); n != 2 {
		t.Errorf("%d tables remain, want 2", n)
	}
	c.lookUp(used)
	if n := c.EvictUnused(); n != 1 || unused.table.Load() != nil || used.table.Load() == nil {
		t.Errorf("%d tables remain, want the used one", n)
	}
	if !c.lookUp(unused) {
		t.Error("the evicted table was not built again")
	}
	c.EvictUnused()
	if n := c.EvictUnused(); n != 0 {
		t.Errorf("%d unused tables remain", n)
	}
}

// TestReplacedRingIsCollected drops rings, as each change of members does.
func TestReplacedRingIsCollected(t *testing.T) {
	c := newCountingTables(1000)
	for i := range 10 {
		c.lookUp(c.New([]string{"a", strconv.Itoa(i)}))
	}
	runtime.GC()
	c.lookUp(c.New([]string{"a", "b"}))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.compact(); len(c.rings) > 1 {
		t.Errorf("%d tables are kept", len(c.rings))
	}
}

func TestEvictionWhileInUse(t *testing.T) {
	c, want := newCountingTables(1), New([]string{"a", "b"})
	rings := []*Ring{c.New([]string{"a", "b"}), c.New([]string{"b", "a"}), c.New([]string{"a", "b"}, "c")}
	var group sync.WaitGroup
	for i, r := range rings {
		group.Go(func() {
			for j := range 50 {
				if key := fmt.Sprint(i, j); r.Owner(key) != want.Owner(key) {
					t.Errorf("the owner of %s is %s, want %s", key, r.Owner(key), want.Owner(key))
				}
				c.EvictUnused()
			}
		})
	}
	group.Wait()
}
