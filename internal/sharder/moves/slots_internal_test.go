package moves

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestSlotsOfOneRingAreLimited has a ring whose writes hang. Other rings still acquire slots.
func TestSlotsOfOneRingAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(8)
		hanging, healthy := slotKey{ring: "hanging"}, slotKey{ring: "healthy"}
		ctx, cancel := context.WithCancel(t.Context())
		taken := make(chan error, 20)
		other := slotKey{ring: "hanging", kind: schema.GroupResource{Resource: "other"}}
		for i := range 20 {
			key := hanging
			if i%2 == 1 {
				key = other
			}
			go func() { taken <- s.acquire(ctx, key) }()
		}
		synctest.Wait()
		if len(taken) != 6 {
			t.Errorf("%d of 8 slots are taken by one ring", len(taken))
		}
		for range 2 {
			if err := s.acquire(t.Context(), healthy); err != nil {
				t.Error(err)
			}
		}
		if s.tryAcquire(slotKey{ring: "third"}) {
			t.Error("there are more slots than 8")
		}
		t.Log("A free slot goes to the ring that has fewest, although the other one has waited longer")
		got := make(chan error, 1)
		go func() { got <- s.acquire(t.Context(), slotKey{ring: "third"}) }()
		synctest.Wait()
		s.release(healthy)
		synctest.Wait()
		if len(got) != 1 || len(taken) != 6 {
			t.Errorf("the third ring got %d, the hanging one has %d", len(got), len(taken))
		}
		cancel()
		synctest.Wait()
		for range 20 {
			if err := <-taken; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		for key, n := range map[slotKey]int{hanging: s.byKind[hanging], other: s.byKind[other]} {
			if n > 4 {
				t.Errorf("one kind has %d of 8 slots", n)
			}
			for range n {
				s.release(key)
			}
		}
		s.release(healthy)
		s.release(slotKey{ring: "third"})
		if s.used != 0 || len(s.byKind) != 0 || len(s.byRing) != 0 || len(s.waiting) != 0 {
			t.Errorf("left: %d used, %v, %d waiting", s.used, s.byKind, len(s.waiting))
		}
	})
}
