package shard

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// ErrOwnershipLost is the cause with which the context of a reconcile ends when another shard owns the object,
// or when the reconcile does not return within the grace period of a drain.
var ErrOwnershipLost = ownership.ErrOwnershipLost

// retryReleasing is the delay before an object that is being released is reconciled again. If the shard
// keeps the object, there may be no event, because a predicate can drop changes of labels.
const retryReleasing = 500 * time.Millisecond

// ownReconciler calls another reconciler only for objects that this shard owns.
type ownReconciler[request comparable] struct {
	reconcile.TypedReconciler[request]
	shard *Shard
	kind  *ownership.Kind
	cache int                                // the index of the cache that the controller watches
	key   func(request) types.NamespacedName // the object that a request is about
}

// Reconcile implements reconcile.TypedReconciler.
func (r *ownReconciler[request]) Reconcile(ctx context.Context, req request) (reconcile.Result, error) {
	running, end, state, err := r.shard.owned.Begin(ctx, r.kind, r.cache, r.key(req))
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case state == ownership.NotOwned:
		return reconcile.Result{}, nil
	case state == ownership.Releasing:
		return reconcile.Result{RequeueAfter: retryReleasing}, nil
	}
	defer end()
	if !r.shard.isMember() {
		// This check comes last: a process that was paused may wake up right here, when other shards
		// own its objects.
		return reconcile.Result{RequeueAfter: retryReleasing}, nil
	}
	result, err := r.TypedReconciler.Reconcile(running, req)
	if err != nil && r.shard.owned.IsFenced(err) {
		// The refused write may be one of a child that its previous owner has not handed over yet. Only a read shows
		// whether this shard still owns the main object.
		if owner := r.shard.owned.OtherOwner(ctx, r.kind, r.key(req)); owner != "" {
			logf.FromContext(ctx).Info("The API server refused a write, because another shard owns the object", "owner", owner)
			return reconcile.Result{RequeueAfter: retryReleasing}, nil
		}
	}
	if errors.Is(context.Cause(running), ErrOwnershipLost) {
		return reconcile.Result{RequeueAfter: retryReleasing}, nil // ignore the result of an interrupted reconcile
	}
	return result, err
}

// leadingReconciler calls another reconciler only while this process certainly leads.
type leadingReconciler[request comparable] struct {
	reconcile.TypedReconciler[request]
	*election
}

// Reconcile implements reconcile.TypedReconciler.
func (l *leadingReconciler[request]) Reconcile(ctx context.Context, req request) (reconcile.Result, error) {
	leading, done := l.Work(ctx)
	defer done()
	if !l.Valid() {
		// This check comes last: a process that was paused may wake up right here.
		return reconcile.Result{RequeueAfter: retryReleasing}, nil
	}
	return l.TypedReconciler.Reconcile(leading, req)
}

// Reconciler wraps a reconciler of a sharded kind, for a controller that was made without
// ControllerManagedBy. Run the controller with Shard.Add.
//
// The wrapped reconciler is called only for objects that this shard owns and is not releasing. Its
// context ends when another shard gets the object or this shard loses its Lease.
//
// children are examples of the kinds that objects of the sharded kind control. Their objects move with
// their controllers.
func (s *Shard) Reconciler(example client.Object, wrapped reconcile.Reconciler, children ...client.Object) (reconcile.Reconciler, error) {
	if !s.options.Mode.sharded() {
		if s.election == nil {
			return wrapped, nil
		}
		if err := s.declareUnsharded(example, children); err != nil {
			return nil, err
		}
		return &leadingReconciler[reconcile.Request]{TypedReconciler: wrapped, election: s.election}, nil
	}
	kind, cache, err := s.declare(example)
	if err != nil {
		return nil, err
	}
	for _, child := range children {
		if err := s.declareControlled(kind, child); err != nil {
			return nil, err
		}
	}
	return &ownReconciler[reconcile.Request]{TypedReconciler: wrapped, shard: s, kind: kind, cache: cache, key: keyOfRequest}, nil
}

func keyOfRequest(req reconcile.Request) types.NamespacedName { return req.NamespacedName }
