package moves

import "context"

// slots bounds how many writes are under way at the same time, over all rings and kinds: that is
// what keeps the API server responsive for others.
type slots chan struct{}

func newSlots(n int) slots { return make(slots, n) }

func (s slots) take(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slots) free() { <-s }
