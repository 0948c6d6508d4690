package shard

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// leadershipMonitor stops the manager when this process loses its leadership. Before that it checks
// whether the process may start, and waits for the caches of a process that is not a shard.
type leadershipMonitor struct{ *Shard }

var _ manager.LeaderElectionRunnable = leadershipMonitor{}

// NeedLeaderElection is false: the monitor has to run before this process leads.
func (leadershipMonitor) NeedLeaderElection() bool { return false }

// Start runs until ctx ends or the leadership is lost.
func (m leadershipMonitor) Start(ctx context.Context) error {
	if err := m.checkStart(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if !m.options.Mode.sharded() || !m.options.Mode.reconciles() {
		// A leader and its standbys are ready as soon as their caches are warm.
		if err := m.warmUp(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		m.joined.Store(true)
	}
	var lost <-chan struct{}
	if m.election != nil {
		lost = m.election.Lost()
	}
	select {
	case <-ctx.Done():
		return nil
	case <-lost:
		m.end(ErrLeaseLost)
		return ErrLeaseLost
	}
}

// addWarmup adds a kind that a leader reads.
func (s *Shard) addWarmup(example client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warmups = append(s.warmups, example)
}

// warmUp waits until the caches of the kinds that a leader reads are filled.
func (s *Shard) warmUp(ctx context.Context) error {
	s.mu.Lock()
	examples := s.warmups
	s.mu.Unlock()
	for _, example := range examples {
		if _, err := s.manager.GetCache().GetInformer(ctx, example); err != nil && ctx.Err() == nil {
			return fmt.Errorf("listing objects of the kind of %T (is this process allowed to list and watch them?): %w", example, err)
		}
	}
	return nil
}

// leaderRunnables runs the added runnables while this process leads.
type leaderRunnables struct{ *Shard }

var _ manager.LeaderElectionRunnable = leaderRunnables{}

// NeedLeaderElection is true.
func (leaderRunnables) NeedLeaderElection() bool { return true }

// Start runs until ctx ends.
func (l leaderRunnables) Start(ctx context.Context) error {
	if l.election != nil {
		leading, done := l.election.Work(ctx)
		defer done()
		ctx = leading
	}
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	group := l.startAll(working, stop)
	<-working.Done()
	failed := context.Cause(working)
	if ctx.Err() == nil {
		l.endAfterFailure(failed)
	}
	group.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return failed
}
