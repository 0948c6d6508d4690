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
	// maxAttempts bounds the attempts to write an object that other clients write, too.
	maxAttempts = 5
	// fieldManager is the field manager of the writes of this package.
	fieldManager = "shard"
	// writeTimeout is the timeout of a request. It exceeds the default timeout of a webhook, 10 s.
	writeTimeout = 15 * time.Second
	// unansweredTimeout is how long a write without a response may still be applied: the API server's
	// default request timeout, 60 s, and a margin for the network.
	unansweredTimeout = 70 * time.Second
)

var (
	// errReleasing is returned if another release of the object is in progress.
	errReleasing = errors.New("the object is already being released")
	// errKept is returned if this shard keeps the object.
	errKept = errors.New("this shard keeps the object")
	// errUnanswered is returned while it is not known whether a release was applied.
	errUnanswered = errors.New("the API server did not answer the release")
	// errCachesDiffer is returned while the caches of a kind show different versions of an object.
	errCachesDiffer = errors.New("the caches show different versions of the object")
	// errRefused is returned if the API server refused a release. This shard keeps the object.
	errRefused = errors.New("the release was refused")
)

// Destination returns the next owner of an object. It is "" if the webhook or the sharder chooses; ok is
// false if this shard keeps the object.
type Destination func(ctx context.Context, k Key, object metav1.Object) (shard string, ok bool)

// Run releases the objects that are being drained, until ctx ends and all releases have returned.
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
			o.releaseDrained(ctx, k)
		})
	}
}

// releaseDrained releases an object that is being drained. It retries a failed release with backoff.
func (o *Ownership) releaseDrained(ctx context.Context, k Key) {
	_, err := o.release(ctx, k, o.drainTarget)
	if err == nil || errors.Is(err, errReleasing) || ctx.Err() != nil {
		o.queue.Forget(k)
		return
	}
	log := logf.FromContext(ctx).WithValues("kind", k.Kind.String(), "namespace", k.Namespace, "name", k.Name)
	if errors.Is(err, errCachesDiffer) { // expected: one watch is faster than another
		log.Info("Waiting to release an object until all caches show it at the same version")
	} else {
		log.Error(err, "Failed to release an object, retrying")
	}
	o.queue.AddRateLimited(k)
}

// drainTarget is the Destination that the drain names, if that shard accepts objects. Users and other
// sharders may write any value.
func (o *Ownership) drainTarget(ctx context.Context, _ Key, object metav1.Object) (string, bool) {
	next, draining := o.draining(object)
	if !draining || next == "" || next == o.Shard || !o.Peers.Contains(ctx, next) {
		return "", draining
	}
	return next, true
}

// Release stops the reconciles of an object and records its next owner, or keeps the object if the
// destination is not ok.
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

// release is Release for a caller that holds a slot.
func (o *Ownership) release(ctx context.Context, k Key, to Destination) (Result, error) {
	kind := o.MainKind(k.Kind)
	if kind == nil {
		return Failed, fmt.Errorf("the kind %s is not sharded", k.Kind)
	}
	idle, ok := o.gate.block(k)
	if !ok {
		return Failed, errReleasing
	}
	defer o.gate.endRelease(k)
	if o.gate.isReleased(k) { // the caches lag, and a release based on what they show could unblock the object
		return Released, o.confirm(ctx, kind, k)
	}
	if err := o.waitIdle(ctx, k, idle); err != nil {
		return Failed, err
	}
	began := time.Now()
	result, err := o.transfer(ctx, kind, k, to)
	o.ObserveRelease(result, time.Since(began))
	return result, err
}

// waitIdle waits until no reconcile of an object is running, and interrupts them after the grace period.
// It frees the slot meanwhile: a reconcile that ignores its context must not delay other releases.
func (o *Ownership) waitIdle(ctx context.Context, k Key, idle <-chan struct{}) error {
	select {
	case <-idle:
		return nil
	default:
	}
	<-o.slots
	defer func() { o.slots <- struct{}{} }()
	grace := time.NewTimer(o.GracePeriod)
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

// transfer releases an object that is not being reconciled, and then unblocks it or keeps it blocked.
func (o *Ownership) transfer(ctx context.Context, kind *Kind, k Key, to Destination) (Result, error) {
	object, err := o.cached(ctx, kind, k)
	if apierrors.IsNotFound(err) {
		o.gate.open(k)
		return Kept, nil
	}
	var tree *objectTree
	if err == nil {
		tree, err = o.treeOf(ctx, kind, object)
	}
	if err != nil { // nothing was written
		o.gate.openUnwritten(k, errors.Is(err, errCachesDiffer))
		return Failed, err
	}
	version, err := o.assign(ctx, k, tree, to)
	switch {
	case errors.Is(err, errKept):
		o.gate.open(k)
		return Kept, nil
	case errors.Is(err, errRefused):
		o.gate.openRefused(k)
		return Refused, err
	case err != nil:
		return Unanswered, err // the object stays blocked: another shard may own it
	}
	o.gate.markReleased(k, version, len(kind.Watched))
	return Released, o.confirm(ctx, kind, k)
}

// cached returns an object that all caches of its kind show at the same version. A cache that lags could
// show the object after its release, as if this shard still owned it.
func (o *Ownership) cached(ctx context.Context, kind *Kind, k Key) (client.Object, error) {
	first, err := o.Objects.Get(ctx, kind, 0, k.NamespacedName)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	for cache := 1; cache < len(kind.Watched); cache++ {
		other, otherErr := o.Objects.Get(ctx, kind, cache, k.NamespacedName)
		switch {
		case client.IgnoreNotFound(otherErr) != nil:
			return nil, otherErr
		case apierrors.IsNotFound(err) != apierrors.IsNotFound(otherErr),
			err == nil && first.GetResourceVersion() != other.GetResourceVersion():
			return nil, errCachesDiffer
		}
	}
	return first, err
}

// confirm unblocks the object if the caches already show its release. Otherwise their next events do.
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

// assign records the next owner of an object and its children, with the version of the object as a
// precondition. It returns a version at which this shard no longer owned the object, because of its own
// write or that of another client.
func (o *Ownership) assign(ctx context.Context, k Key, tree *objectTree, to Destination) (version string, err error) {
	uid, cached := tree.object.UID, tree.object.ResourceVersion
	pending, err := o.readUnanswered(ctx, k, tree)
	if apierrors.IsNotFound(err) {
		return cached, nil
	}
	if err != nil {
		return "", err
	}
	// keep assigns the children to this shard again, unless a write may still be applied: then the object
	// stays blocked.
	keep := func(reason, cause error) (string, error) {
		if pending {
			return "", errors.Join(errUnanswered, cause)
		}
		o.assignChildren(ctx, tree, o.Shard)
		return "", errors.Join(reason, cause)
	}
	for range maxAttempts { // each conflict needs a new decision, also about the children
		if !o.isOwn(tree.object) {
			return tree.object.ResourceVersion, nil
		}
		next, ok := to(ctx, k, tree.object)
		if !ok || tree.object.UID != uid { // a new object of the same name is not being drained
			return keep(errKept, nil)
		}
		if next != "" {
			o.assignChildren(ctx, tree, next)
		}
		before, sentAt := tree.object.ResourceVersion, time.Now()
		writeErr := o.write(ctx, tree.object, next)
		switch {
		case writeErr == nil && o.isOwn(tree.object):
			pending = false
			return keep(errKept, nil) // the webhook has assigned the object to this shard again, in the same write
		case writeErr == nil:
			return tree.object.ResourceVersion, nil
		case isRefusal(writeErr):
			return keep(errRefused, writeErr)
		case !isAnswer(writeErr):
			o.gate.markUnanswered(k, before, sentAt)
			pending = true
		}
		// Only a read shows whether the object still exists: a webhook may answer a write with any code.
		switch err := o.read(ctx, tree.object); {
		case apierrors.IsNotFound(err):
			return before, nil
		case err != nil:
			return "", errors.Join(errUnanswered, writeErr, err)
		case tree.object.ResourceVersion != before: // the precondition of earlier writes no longer holds
			pending = false
		case !apierrors.IsConflict(writeErr):
			return keep(errRefused, writeErr)
		}
	}
	return keep(errRefused, fmt.Errorf("%d attempts in a row conflicted with writes of other clients", maxAttempts))
}

// readUnanswered reads an object if its last release got no response, and reports whether that release may
// still be applied: its precondition holds, and the API server may still be processing it.
func (o *Ownership) readUnanswered(ctx context.Context, k Key, tree *objectTree) (pending bool, err error) {
	unanswered := o.gate.unansweredOf(k)
	if unanswered.version == "" {
		return false, nil
	}
	expired := time.Since(unanswered.sentAt) >= unansweredTimeout // checked before the read, which must show an applied release
	if err := o.read(ctx, tree.object); err != nil {
		if apierrors.IsNotFound(err) {
			return false, err
		}
		return true, errors.Join(errUnanswered, err)
	}
	return !expired && tree.object.ResourceVersion == unanswered.version, nil
}

// isRefusal reports whether the API server answered that it refused a write, with the reason.
func isRefusal(err error) bool {
	code := codeOf(err)
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError &&
		!slices.Contains([]int{http.StatusRequestTimeout, http.StatusConflict, http.StatusNotFound}, code)
}

// isAnswer reports whether an error is a final response of the API server. After timeouts and errors of
// proxies and etcd, the write may still be applied.
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

// write records the next owner of an object, or none, in one write. It updates the object with the
// response.
func (o *Ownership) write(ctx context.Context, object *metav1.PartialObjectMetadata, next string) error {
	patch, err := o.patch(object.ResourceVersion, next)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return o.writer.Patch(ctx, object, patch, client.FieldOwner(fieldManager))
}
