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

// retryReleasesAfter is the delay before failed releases are retried.
const retryReleasesAfter = 200 * time.Millisecond

// errNoPeer is returned if the ring has no other shard.
var errNoPeer = errors.New("no other shard found")

// ReleaseAll releases all objects to their next owners. It returns the number of released objects, and
// whether none remain.
//
// This shard reconciles each object until its release. The sharder moves the objects that remain when ctx
// ends, after the Lease is released.
func (o *Ownership) ReleaseAll(ctx context.Context) (released int, complete bool) {
	log := logf.FromContext(ctx)
	for ctx.Err() == nil {
		succeeded, failed, err := o.releaseOwned(ctx)
		released += succeeded
		switch {
		case errors.Is(err, errNoPeer):
			log.Info("Found no other shard to hand objects over to")
			return released, false
		case failed == 0 && succeeded == 0:
			return released, true
		case failed > 0 && ctx.Err() == nil:
			log.Info("Failed to release some objects, retrying", "objects", failed, "error", err.Error())
			waitForRetry(ctx)
		}
	}
	return released, false
}

func waitForRetry(ctx context.Context) {
	timer := time.NewTimer(retryReleasesAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// releaseOwned releases the objects in the caches. It returns the number of released objects, the number of
// failures, and one of the errors.
func (o *Ownership) releaseOwned(ctx context.Context) (released, failed int, reason error) {
	var (
		group sync.WaitGroup
		mu    sync.Mutex
	)
	count := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			released++
			return
		}
		failed++
		if !errors.Is(reason, errNoPeer) {
			reason = err
		}
	}
	noPeer := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return errors.Is(reason, errNoPeer)
	}
	for _, kind := range o.MainKinds() {
		err := o.Objects.ForEach(ctx, kind, "", func(object client.Object) error {
			k := Key{kind.GroupKind(), client.ObjectKeyFromObject(object)}
			if o.gate.isReleased(k) {
				return nil
			}
			if noPeer() {
				return errNoPeer
			}
			select {
			case o.slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			group.Go(func() {
				defer func() { <-o.slots }()
				count(o.releaseToNext(ctx, k))
			})
			return nil
		})
		if err != nil {
			count(err)
		}
	}
	group.Wait()
	return released, failed, reason
}

// releaseToNext releases an object to the shard that owns its key after this shard has left. It reads the
// peers for each object, so that none is assigned to a peer that is leaving, too.
func (o *Ownership) releaseToNext(ctx context.Context, k Key) error {
	var nextErr error
	result, err := o.release(ctx, k, func(ctx context.Context, k Key, _ metav1.Object) (string, bool) {
		next, ok, err := o.Peers.Next(ctx, assignment.Key(k.Kind, k.Namespace, k.Name))
		if err == nil && !ok {
			err = errNoPeer
		}
		nextErr = err
		return next, ok
	})
	if err == nil && nextErr == nil && result == Kept {
		err = errKept // the webhook has assigned the object to this shard again, or the object was deleted
	}
	return errors.Join(err, nextErr)
}
