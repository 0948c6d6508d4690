package sharder

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
)

// seeker looks for objects that the webhook had to let pass without a shard, soon after they were
// created instead of with the next sync. Every replica looks for what passed its own webhook: two
// that look at the same time find that the other was faster.
type seeker struct {
	mover *moves.Mover
	rings chan string
}

var _ manager.LeaderElectionRunnable = &seeker{}

func newSeeker(mover *moves.Mover) *seeker {
	return &seeker{mover: mover, rings: make(chan string, 1024)}
}

// seek asks for a look at a ring. It never waits: a user's request does.
func (s *seeker) seek(ring string) {
	select {
	case s.rings <- ring:
	default: // the sync finds the rest
	}
}

// NeedLeaderElection is false: every replica serves the webhook.
func (s *seeker) NeedLeaderElection() bool { return false }

// Start looks until ctx ends.
func (s *seeker) Start(ctx context.Context) error {
	// By then the object is stored, and others that were created with it are too.
	const patience = 300 * time.Millisecond
	for {
		wanted := map[string]bool{}
		select {
		case <-ctx.Done():
			return nil
		case ring := <-s.rings:
			wanted[ring] = true
		}
		timer := time.NewTimer(patience)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case ring := <-s.rings:
				wanted[ring] = true
			case <-timer.C:
				waiting = false
			}
		}
		for ring := range wanted {
			s.mover.Rescue(ctx, ring)
		}
	}
}
