package shard

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// ErrTaken is the cause with which the context of a reconcile ends whose object is no longer this
// shard's, or whose release was asked for and took too long.
var ErrTaken = ownership.ErrTaken

// retryReleasing is when to look again at an object that is being released. If it stays after all, there may be no event: a
// predicate can hide that its labels have changed.
const retryReleasing = 500 * time.Millisecond

// ownReconciler calls another reconciler for the objects of this shard, and for no others.
type ownReconciler[request comparable] struct {
	reconcile.TypedReconciler[request]
	shard *Shard
	kind  *ownership.Kind
	cache int
	key   func(request) types.NamespacedName
}

// Reconcile implements reconcile.TypedReconciler.
func (r *ownReconciler[request]) Reconcile(ctx context.Context, of request) (reconcile.Result, error) {
	running, end, state, err := r.shard.owned.Begin(ctx, r.kind, r.cache, r.key(of))
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
		// The last thing to look at: a process that was paused may wake up right here, and others may
		// own its objects by now.
		return reconcile.Result{RequeueAfter: retryReleasing}, nil
	}
	result, err := r.TypedReconciler.Reconcile(running, of)
	if errors.Is(context.Cause(running), ErrTaken) {
		return reconcile.Result{RequeueAfter: retryReleasing}, nil // its result does not matter any more
	}
	return result, err
}

// leadingReconciler calls another reconciler only while this process certainly leads.
type leadingReconciler[request comparable] struct {
	reconcile.TypedReconciler[request]
	*election
}

// Reconcile implements reconcile.TypedReconciler.
func (l *leadingReconciler[request]) Reconcile(ctx context.Context, of request) (reconcile.Result, error) {
	leading, done := l.Work(ctx)
	defer done()
	if !l.Valid() {
		// The last thing to look at: a process that was paused may wake up right here.
		return reconcile.Result{RequeueAfter: retryReleasing}, nil
	}
	return l.TypedReconciler.Reconcile(leading, of)
}

// Reconciler wraps a reconciler of a sharded kind, for a controller that was made without
// ControllerManagedBy. The controller must run with Shard.Add. The wrapped one is called only for
// objects that are this shard's and are not being released, and its context ends when the
// object is taken away or the Lease is lost. Children are of the kinds that objects of the sharded one
// control; they follow them.
func (s *Shard) Reconciler(example client.Object, wrapped reconcile.Reconciler, children ...client.Object) (reconcile.Reconciler, error) {
	if !s.options.Mode.spread() {
		if s.election == nil {
			return wrapped, nil
		}
		if err := s.note(example, children); err != nil {
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

func keyOfRequest(of reconcile.Request) types.NamespacedName { return of.NamespacedName }
