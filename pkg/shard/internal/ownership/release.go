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
	_, err := o.release(ctx, k, o.requested)
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
	_, err := o.release(ctx, k, to)
	return err
}

// release is Release for a caller that has a slot.
func (o *Ownership) release(ctx context.Context, k Key, to Destination) (Result, error) {
	kind := o.MainKind(k.Kind)
	if kind == nil {
		return Failed, fmt.Errorf("the kind %s is not sharded", k.Kind)
	}
	idle, ok := o.gate.block(k)
	if !ok {
		return Failed, errReleasing
	}
	defer o.gate.done(k)
	if err := o.waitIdle(ctx, k, idle); err != nil {
		return Failed, err
	}
	began := time.Now()
	result, err := o.transfer(ctx, kind, k, to)
	o.Observe(result, time.Since(began))
	return result, err
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
		if o.gate.unansweredOf(k).version == "" { // nothing was written
			o.gate.openRefused(k)
		}
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
	uid, cached := f.object.UID, f.object.ResourceVersion
	pending, err := o.readUnanswered(ctx, k, f)
	if apierrors.IsNotFound(err) {
		return cached, nil
	}
	if err != nil {
		return "", err
	}
	// keep takes the children back, unless a write may still be applied: then the object stays blocked.
	keep := func(reason, cause error) (string, error) {
		if pending {
			return "", errors.Join(errUnanswered, cause)
		}
		o.giveChildren(ctx, f, o.Shard)
		return "", errors.Join(reason, cause)
	}
	for range attempts {
		if !o.own(f.object) {
			return f.object.ResourceVersion, nil
		}
		next, goes := to(ctx, k, f.object)
		if !goes || f.object.UID != uid { // the release of a new object of that name was not asked for
			return keep(errKept, nil)
		}
		if next != "" {
			o.giveChildren(ctx, f, next)
		}
		before, sentAt := f.object.ResourceVersion, time.Now()
		failed := o.write(ctx, f.object, next)
		switch {
		case failed == nil && o.own(f.object):
			return "", errKept // the webhook has chosen this shard again, in that same write
		case failed == nil:
			return f.object.ResourceVersion, nil
		case isRefusal(failed):
			return keep(errRefused, failed)
		case !isAnswer(failed):
			o.gate.sent(k, before, sentAt)
			pending = true
		}
		// What has become of the object? Only a read tells whether it is gone: a webhook may answer a write with any code.
		switch err := o.read(ctx, f.object); {
		case apierrors.IsNotFound(err):
			return before, nil
		case err != nil:
			return "", errors.Join(errUnanswered, failed, err)
		case f.object.ResourceVersion != before: // no earlier write can be applied any more
			pending = false
		case !apierrors.IsConflict(failed):
			return keep(errRefused, failed)
		}
	}
	return keep(errRefused, fmt.Errorf("other clients have written the object %d times in a row", attempts))
}

// readUnanswered reads an object of which an earlier release was not answered, and tells whether that may still be applied:
// its precondition holds, and the API server may still be at it.
func (o *Ownership) readUnanswered(ctx context.Context, k Key, f *withChildren) (pending bool, err error) {
	unanswered := o.gate.unansweredOf(k)
	if unanswered.version == "" {
		return false, nil
	}
	expired := time.Since(unanswered.sentAt) >= unansweredLasts // before the read, which must see what was applied
	if err := o.read(ctx, f.object); err != nil {
		if apierrors.IsNotFound(err) {
			return false, err
		}
		return true, errors.Join(errUnanswered, err)
	}
	return !expired && f.object.ResourceVersion == unanswered.version, nil
}

// isRefusal tells whether an error is an answer of the API server that a write was not applied, and why.
func isRefusal(err error) bool {
	code := codeOf(err)
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError &&
		!slices.Contains([]int{http.StatusRequestTimeout, http.StatusConflict, http.StatusNotFound}, code)
}

// isAnswer tells whether an error is an answer of the API server, so that the request has ended. Errors of proxies, timeouts,
// and errors of etcd are not: the write may still be applied.
func isAnswer(err error) bool {
	return isRefusal(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) ||
		apierrors.ReasonForError(err) == metav1.StatusReasonInternalError && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
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
