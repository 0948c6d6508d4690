package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/membership"
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

// memberRunnables runs the added runnables while this process is a member of the ring.
type memberRunnables struct{ *Shard }

var _ manager.LeaderElectionRunnable = memberRunnables{}

// NeedLeaderElection is false: all shards run at the same time.
func (memberRunnables) NeedLeaderElection() bool { return false }

// Start joins the ring and runs until ctx ends or the Lease is lost.
func (m memberRunnables) Start(ctx context.Context) error {
	log := logf.FromContext(ctx).WithValues("controllerRing", m.Ring(), "shard", m.Name(), "namespace", m.options.Namespace)
	ctx = logf.IntoContext(ctx, log)
	defer running.add(m.Shard)()
	if err := m.prepare(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	var failed error
	err := m.lease.Run(ctx, func(leaseCtx context.Context, current *membership.Member) {
		log.Info("Acquired shard lease")
		go m.warnWithoutSharder(leaseCtx, current)
		m.member.Store(current)
		m.joined.Store(true)
		defer context.AfterFunc(leaseCtx, func() {
			if errors.Is(context.Cause(leaseCtx), ErrLeaseLost) {
				m.end(ErrLeaseLost)
			}
		})()
		failed = m.work(ctx, leaseCtx, current)
		m.joined.Store(false)
	})
	if errors.Is(err, ErrLeaseLost) {
		m.countLeaseLoss()
	}
	if err == nil && failed == nil {
		log.Info("Left the ring")
	}
	return errors.Join(err, failed)
}

// warnWithoutSharder logs a warning if no sharder adds this shard to the ring.
func (s *Shard) warnWithoutSharder(ctx context.Context, current *membership.Member) {
	if current.LacksSharder(ctx) {
		logf.FromContext(ctx).Info("No sharder has added this shard to the ring. With an external sharder: is it running, does the ControllerRing exist, " +
			"and does it accept shards from this namespace? Otherwise: is a process elected the in-process sharder? See also the events of the lease")
	}
}

// work runs the added runnables until the Lease is lost or, after ctx has ended, all objects are handed
// over.
func (s *Shard) work(ctx, leaseCtx context.Context, current *membership.Member) error {
	working, stop := context.WithCancelCause(leaseCtx)
	defer stop(nil)
	if err := s.watchOwned(working); err != nil {
		return fmt.Errorf("watching the objects of this shard: %w", err)
	}
	group := s.startAll(working, stop)
	group.Go(func() { s.owned.Run(working) })
	select {
	case <-ctx.Done():
		s.handOver(working, current)
	case <-working.Done(): // the Lease is lost, or a runnable has failed
	}
	failed := context.Cause(working)
	lost := errors.Is(context.Cause(leaseCtx), ErrLeaseLost) // a runnable's own error may wrap ErrLeaseLost
	if ctx.Err() == nil && !lost {
		s.endAfterFailure(failed)
	}
	stop(nil)
	group.Wait()
	if lost { // Lease.Run returns it
		return nil
	}
	return failed
}

// startAll starts the added runnables. If one of them fails, it stops the others.
func (s *Shard) startAll(working context.Context, stop context.CancelCauseFunc) *sync.WaitGroup {
	s.mu.Lock()
	s.running = true
	runnables := s.runnables
	s.mu.Unlock()
	group := &sync.WaitGroup{}
	for _, runnable := range runnables {
		group.Go(func() {
			if err := runnable.Start(working); err != nil && working.Err() == nil {
				stop(err)
			}
		})
	}
	return group
}

// endAfterFailure stops the manager at once after a runnable has failed. Otherwise a reconcile that
// ignores its context would keep the process alive and ready without any other work.
func (s *Shard) endAfterFailure(failed error) {
	s.joined.Store(false)
	s.end(failed)
}

// handOver hands all objects over to their next owners.
func (s *Shard) handOver(ctx context.Context, current *membership.Member) {
	if s.options.HandoverTimeout < 0 {
		return
	}
	log := logf.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.options.HandoverTimeout)
	defer cancel()
	if err := current.AnnounceLeaving(ctx); err != nil {
		log.Error(err, "Failed to announce on the shard lease that this shard is leaving: it may still be assigned objects")
	}
	released, complete := s.owned.ReleaseAll(ctx)
	log.Info("Handed over objects", "objects", released, "complete", complete)
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
