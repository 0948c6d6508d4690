package ownership

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// attempts is how often a write is tried on an object that others write too.
	attempts = 5
	// fieldManager is the name under which the API server records our writes.
	fieldManager = "shard"
	// writeTimeout bounds a request. It leaves room for a webhook of others that hangs for its default timeout of 10 s.
	writeTimeout = 15 * time.Second
	// unansweredLasts is how long a write that was not answered may still be applied: the API server's default request
	// timeout, 60 s, and some seconds for the way.
	unansweredLasts = 70 * time.Second
)

var (
	// errReleasing is returned for an object that is being released already.
	errReleasing = errors.New("the object is being released already")
	// errKept is returned for an object that need not be released any more.
	errKept = errors.New("the object stays")
	// errUnanswered is returned while it is not known whether a release was applied.
	errUnanswered = errors.New("the release was not answered")
	// errRefused is returned when a release was refused. The object stays this shard's.
	errRefused = errors.New("the release was refused")
)

// Destination decides which shard gets an object. Without one, the webhook or the sharder decides; ok is false if the object
// stays.
type Destination func(ctx context.Context, k Key, object metav1.Object) (shard string, ok bool)

// Run releases objects whose release is asked for, until ctx ends and all releases have returned.
func (o *Ownership) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, o.queue.ShutDown)()
	var group sync.WaitGroup
	defer group.Wait()
	for {
		k, shutdown := o.queue.Get()
		if shutdown {
			return
		}
		o.slots <- struct{}{}
		group.Go(func() {
			defer func() { <-o.slots }()
			defer o.queue.Done(k)
			o.answer(ctx, k)
		})
	}
}

// answer releases an object whose release is asked for. If that fails it is tried again after a while.
func (o *Ownership) answer(ctx context.Context, k Key) {
	err := o.release(ctx, k, o.requested)
	if err == nil || errors.Is(err, errReleasing) || ctx.Err() != nil {
		o.queue.Forget(k)
		return
	}
	logf.FromContext(ctx).Error(err, "Could not release an object, trying again", "kind", k.Kind.String(), "namespace", k.Namespace, "name", k.Name)
	o.queue.AddRateLimited(k)
}

// requested is the destination that the request for a release names, if that is a shard that can take objects. Other
// sharders and people write anything.
func (o *Ownership) requested(ctx context.Context, _ Key, object metav1.Object) (string, bool) {
	next, asked := o.record.asked(object)
	if !asked || next == "" || next == o.Shard || !o.Peers.Contains(ctx, next) {
		return "", asked
	}
	return next, true
}

// Release stops working on an object and makes it another shard's, or keeps it if the destination is not ok.
func (o *Ownership) Release(ctx context.Context, k Key, to Destination) error {
	select {
	case o.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-o.slots }()
	return o.release(ctx, k, to)
}

// release is Release for a caller that has a slot.
func (o *Ownership) release(ctx context.Context, k Key, to Destination) error {
	kind := o.MainKind(k.Kind)
	if kind == nil {
		return fmt.Errorf("the kind %s is not sharded", k.Kind)
	}
	idle, ok := o.gate.block(k)
	if !ok {
		return errReleasing
	}
	defer o.gate.done(k)
	if err := o.waitIdle(ctx, k, idle); err != nil {
		return err
	}
	began := time.Now()
	result, err := o.transfer(ctx, kind, k, to)
	o.Observe(result, time.Since(began))
	return err
}

// waitIdle waits until no reconcile of an object is running. Those that do not end in time are interrupted. One that ignores
// that does not keep others from being released: meanwhile the slot is free.
func (o *Ownership) waitIdle(ctx context.Context, k Key, idle <-chan struct{}) error {
	select {
	case <-idle:
		return nil
	default:
	}
	<-o.slots
	defer func() { o.slots <- struct{}{} }()
	grace := time.NewTimer(o.Grace)
	defer grace.Stop()
	for {
		select {
		case <-idle:
			return nil
		case <-grace.C:
			o.gate.interrupt(k)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// transfer releases an object that no reconcile works on, and decides whether reconciles may begin again.
func (o *Ownership) transfer(ctx context.Context, kind *Kind, k Key, to Destination) (Result, error) {
	object, err := o.Objects.Get(ctx, kind, 0, k.NamespacedName)
	if apierrors.IsNotFound(err) {
		o.gate.open(k)
		return Kept, nil
	}
	if err != nil {
		return Failed, err
	}
	found, err := o.withChildren(ctx, kind, object)
	if err != nil {
		o.gate.openRefused(k) // nothing was written
		return Failed, err
	}
	version, err := o.give(ctx, k, found, to)
	switch {
	case errors.Is(err, errKept):
		o.gate.open(k)
		return Kept, nil
	case errors.Is(err, errRefused):
		o.gate.openRefused(k)
		return Refused, err
	case err != nil:
		return Unanswered, err // it stays blocked: it may be another shard's
	}
	o.gate.markReleased(k, version, len(kind.Watched))
	return Released, o.confirm(ctx, kind, k)
}

// confirm opens the gate if the caches have shown already that the object was released. Otherwise the events that are still
// to come do.
func (o *Ownership) confirm(ctx context.Context, kind *Kind, k Key) error {
	for cache := range kind.Watched {
		object, err := o.Objects.Get(ctx, kind, cache, k.NamespacedName)
		switch {
		case apierrors.IsNotFound(err):
			o.gate.observeDeletion(k, "", cache)
		case err != nil:
			return err
		default:
			o.gate.observe(k, object.GetResourceVersion(), cache)
		}
	}
	return nil
}

// give records who owns an object and its children, the object on the very version that was decided about. It returns a
// version with which the object was not this shard's any more, because of this write or for another reason. When other
// clients have written the object meanwhile, it decides again, also about the children.
func (o *Ownership) give(ctx context.Context, k Key, f *withChildren, to Destination) (version string, err error) {
	uid := f.object.UID
	for range attempts {
		if !o.own(f.object) {
			return f.object.ResourceVersion, nil
		}
		next, goes := to(ctx, k, f.object)
		if !goes || f.object.UID != uid { // the release of a new object of that name was not asked for
			o.giveChildren(ctx, f, o.Shard)
			return "", errKept
		}
		if next != "" {
			o.giveChildren(ctx, f, next)
		}
		before, sentAt := f.object.ResourceVersion, time.Now()
		err := o.write(ctx, f.object, next)
		switch {
		case apierrors.IsNotFound(err):
			return before, nil
		case err == nil && o.own(f.object):
			return "", errKept // the webhook has chosen this shard again, in that same write
		case err == nil:
			return f.object.ResourceVersion, nil
		case isRefusal(err):
			return "", o.notApplied(ctx, k, f, err)
		}
		// A conflict, or an answer that was lost: what has become of the object?
		if !apierrors.IsConflict(err) && !isAnswer(err) {
			o.gate.sent(k, before, sentAt)
		}
		switch readErr := o.read(ctx, f.object); {
		case apierrors.IsNotFound(readErr):
			return before, nil
		case readErr != nil:
			return "", fmt.Errorf("%w: %w", errUnanswered, errors.Join(err, readErr))
		case !apierrors.IsConflict(err) && f.object.ResourceVersion == before && o.own(f.object):
			return "", o.notApplied(ctx, k, f, err)
		}
	}
	o.giveChildren(ctx, f, o.Shard)
	return "", fmt.Errorf("%w: other clients have written the object %d times in a row", errRefused, attempts)
}

// notApplied decides about an object that is still this shard's after a write that failed. This write, or one before, may not
// have been answered and be applied later, because its precondition still holds; until that cannot happen any more, the object
// stays blocked.
func (o *Ownership) notApplied(ctx context.Context, k Key, f *withChildren, err error) error {
	if left := o.gate.mayBeAppliedFor(k, f.object.ResourceVersion, time.Now()); left > 0 {
		return fmt.Errorf("%w: %w", errUnanswered, err)
	}
	o.giveChildren(ctx, f, o.Shard)
	return fmt.Errorf("%w: %w", errRefused, err)
}

// isRefusal tells whether an error is an answer of the API server that a write was not applied, and why.
func isRefusal(err error) bool {
	code := codeOf(err)
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError &&
		!slices.Contains([]int{http.StatusRequestTimeout, http.StatusConflict, http.StatusNotFound}, code)
}

// isAnswer tells whether an error is an answer of the API server, so that the request has ended. Errors of proxies, and
// timeouts, are none: the request may still be under way.
func isAnswer(err error) bool {
	return codeOf(err) == http.StatusInternalServerError && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) || isRefusal(err)
}

func codeOf(err error) int {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0
	}
	return int(status.Status().Code)
}

func (o *Ownership) read(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return o.writer.Get(ctx, client.ObjectKeyFromObject(object), object)
}

// write records an object for a shard in one write, or for none, and takes the API server's answer.
func (o *Ownership) write(ctx context.Context, object *metav1.PartialObjectMetadata, next string) error {
	patch, err := o.patch(object.ResourceVersion, next)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return o.writer.Patch(ctx, object, patch, client.FieldOwner(fieldManager))
}
