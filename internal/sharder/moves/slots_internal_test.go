package moves

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestSlotsOfOneRingAreLimited has a ring whose writes hang. Another one still gets slots.
func TestSlotsOfOneRingAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(8)
		hanging, healthy := user{ring: "hanging"}, user{ring: "healthy"}
		ctx, cancel := context.WithCancel(t.Context())
		taken := make(chan error, 20)
		for range 20 {
			go func() { taken <- s.take(ctx, hanging) }()
		}
		synctest.Wait()
		if len(taken) != 6 {
			t.Errorf("%d of 8 slots are taken by one ring", len(taken))
		}
		for range 2 {
			if err := s.take(t.Context(), healthy); err != nil {
				t.Error(err)
			}
		}
		if s.tryTake(user{ring: "third"}) {
			t.Error("there are more slots than 8")
		}
		t.Log("A free slot goes to the ring that has fewest, although the other one has waited longer")
		got := make(chan error, 1)
		go func() { got <- s.take(t.Context(), user{ring: "third"}) }()
		synctest.Wait()
		s.free(healthy)
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
		for range 6 {
			s.free(hanging)
		}
		s.free(healthy)
		s.free(user{ring: "third"})
		if s.used != 0 || len(s.held) != 0 || len(s.waiting) != 0 {
			t.Errorf("left: %d used, %v, %d waiting", s.used, s.held, len(s.waiting))
		}
	})
}
