package shard

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// watchdog ends the manager when its leadership is lost.
type watchdog struct{ *Shard }

var _ manager.LeaderElectionRunnable = watchdog{}

// NeedLeaderElection is false: it has to run before there is a leader.
func (watchdog) NeedLeaderElection() bool { return false }

// Start watches until ctx ends.
func (w watchdog) Start(ctx context.Context) error {
	if !w.options.Mode.spread() || !w.options.Mode.works() {
		// Warm caches are all that an instance needs that works, or waits to.
		if err := w.warmUp(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		w.joined.Store(true)
	}
	var lost <-chan struct{}
	if w.election != nil {
		lost = w.election.Lost()
	}
	select {
	case <-ctx.Done():
		return nil
	case <-lost:
		w.end(ErrLost)
		return ErrLost
	}
}

// warm notes a kind that a leader reads.
func (s *Shard) warm(example client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warmed = append(s.warmed, example)
}

// warmUp waits until the caches have all that a leader reads.
func (s *Shard) warmUp(ctx context.Context) error {
	s.mu.Lock()
	examples := s.warmed
	s.mu.Unlock()
	for _, example := range examples {
		if _, err := s.manager.GetCache().GetInformer(ctx, example); err != nil && ctx.Err() == nil {
			return fmt.Errorf("reading objects of the kind of %T, which this instance may not be allowed to list and watch: %w", example, err)
		}
	}
	return nil
}

// elected runs all that was added, while this process leads.
type elected struct{ *Shard }

var _ manager.LeaderElectionRunnable = elected{}

// NeedLeaderElection is true.
func (elected) NeedLeaderElection() bool { return true }

// Start runs until ctx ends.
func (e elected) Start(ctx context.Context) error {
	if e.election != nil {
		leading, done := e.election.Work(ctx)
		defer done()
		ctx = leading
	}
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	group := e.startAll(working, stop)
	<-working.Done()
	failed := context.Cause(working)
	group.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return failed
}
