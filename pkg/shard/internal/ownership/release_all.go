package ownership

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringmaster-project/ringmaster/internal/assignment"
)

// pauseAfterFailure keeps releases that fail from being repeated at once.
const pauseAfterFailure = 200 * time.Millisecond

// errAlone is returned when there is no other shard.
var errAlone = errors.New("there is no other shard")

// ReleaseAll releases every object to its next owner while this shard goes on working on the rest: no object is without a
// shard that works on it for longer than its own write. What is left when ctx ends, the sharder moves once the Lease is
// released. It returns how many objects were released, and whether that was all.
func (o *Ownership) ReleaseAll(ctx context.Context) (released int, complete bool) {
	log := logf.FromContext(ctx)
	for ctx.Err() == nil {
		done, failed, err := o.releaseOwned(ctx)
		released += done
		switch {
		case errors.Is(err, errAlone):
			log.Info("There is no other shard to hand objects over to")
			return released, false
		case failed == 0 && done == 0:
			return released, true
		case failed > 0 && ctx.Err() == nil:
			log.Info("Not all objects could be released, trying again", "objects", failed, "error", err.Error())
			pause(ctx)
		}
	}
	return released, false
}

func pause(ctx context.Context) {
	timer := time.NewTimer(pauseAfterFailure)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// releaseOwned releases what the caches have. It returns how many objects were released, how many were not, and one of the
// reasons.
func (o *Ownership) releaseOwned(ctx context.Context) (done, failed int, reason error) {
	var (
		group sync.WaitGroup
		mu    sync.Mutex
	)
	note := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			done++
			return
		}
		failed++
		if !errors.Is(reason, errAlone) {
			reason = err
		}
	}
	alone := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return errors.Is(reason, errAlone)
	}
	for _, kind := range o.Main() {
		err := o.Objects.Each(ctx, kind, "", func(object client.Object) error {
			k := Key{kind.GroupKind(), client.ObjectKeyFromObject(object)}
			if o.gate.isReleased(k) {
				return nil
			}
			if alone() {
				return errAlone
			}
			select {
			case o.slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			group.Go(func() {
				defer func() { <-o.slots }()
				note(o.releaseToNext(ctx, k))
			})
			return nil
		})
		if err != nil {
			note(err)
		}
	}
	group.Wait()
	return done, failed, reason
}

// releaseToNext releases an object to the shard that owns its key without this one. The peers are read for each object, so
// that one which leaves as well gets nothing more.
func (o *Ownership) releaseToNext(ctx context.Context, k Key) error {
	var unknown error
	result, err := o.release(ctx, k, func(ctx context.Context, k Key, _ metav1.Object) (string, bool) {
		next, ok, err := o.Peers.Next(ctx, assignment.Key(k.Kind, k.Namespace, k.Name))
		if err == nil && !ok {
			err = errAlone
		}
		unknown = err
		return next, ok
	})
	if err == nil && unknown == nil && result == Kept {
		err = errKept // the webhook has assigned it to this shard again, or it is gone
	}
	return errors.Join(err, unknown)
}
