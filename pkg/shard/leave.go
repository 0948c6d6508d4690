package shard

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

// leave gives every object to its next shard, one after the other, while this shard goes on working
// on the rest. So no object is without a shard that works on it for longer than its own write. What
// is left when the time is over, the sharder moves once the Lease is given up.
func (s *Shard) leave(ctx context.Context, lock *lock) {
	if s.options.HandOver < 0 {
		return
	}
	log := logf.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.options.HandOver)
	defer cancel()
	if err := lock.announce(ctx); err != nil {
		log.Error(err, "Objects may be given to this shard while it leaves")
	}
	total := 0
	for {
		others, err := s.peers.list(ctx)
		if err != nil {
			log.Error(err, "The objects of this shard are left to the sharder")
			return
		}
		if len(others.Shards()) == 0 {
			log.Info("There is no other shard to hand objects to")
			return
		}
		done, failed := s.handAllOver(ctx, others)
		total += done
		if done == 0 && failed == 0 || ctx.Err() != nil {
			break
		}
	}
	log.Info("Handed objects over", "objects", total, "complete", ctx.Err() == nil)
}

// handAllOver gives away what the cache has. It returns how many objects were, and were not.
func (s *Shard) handAllOver(ctx context.Context, others *ring.Ring) (done, failed int) {
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		first error
		slots = make(chan struct{}, s.options.ConcurrentHandOvers)
	)
	to := func(_ context.Context, k key, _ map[string]string) (string, bool) {
		return others.Owner(assignment.Key(k.kind, k.Namespace, k.Name)), true
	}
	for _, known := range s.kinds.allMain() {
		err := s.each(ctx, known, func(object client.Object) error {
			k := key{known.GroupKind(), client.ObjectKeyFromObject(object)}
			if s.guard.gone(k) {
				return nil
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			group.Go(func() {
				defer func() { <-slots }()
				err := s.handOver(ctx, k, to)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					done++
					return
				}
				failed++
				first = err
			})
			return nil
		})
		if err != nil {
			failed++
		}
	}
	group.Wait()
	if failed > 0 && ctx.Err() == nil {
		logf.FromContext(ctx).Error(first, "Not all objects could be handed over, trying again", "objects", failed)
		s.pause(ctx)
	}
	return done, failed
}

// pause keeps what fails from being tried again at once.
func (s *Shard) pause(ctx context.Context) {
	timer := time.NewTimer(retryFirst * 10)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
