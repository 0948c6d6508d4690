package shard

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// reconciler calls another one for the objects of this shard, and for no others.
type reconciler struct {
	reconcile.Reconciler
	shard *Shard
	kind  *kind
}

// Reconciler wraps a reconciler of a sharded kind, for a controller that was made without
// ControllerManagedBy. The controller must run with Shard.Add. The wrapped one is called only for
// objects that are this shard's and that no other shard asks for, and its context ends when the
// object is taken away or the Lease is lost. Children are of the kinds that objects of the sharded one
// control; they follow them.
func (s *Shard) Reconciler(example client.Object, wrapped reconcile.Reconciler, children ...client.Object) (reconcile.Reconciler, error) {
	if !s.options.Mode.spread() {
		if s.candidacy == nil {
			return wrapped, nil
		}
		if err := s.note(example, children); err != nil {
			return nil, err
		}
		return &leading{Reconciler: wrapped, candidacy: s.candidacy}, nil
	}
	known, err := s.declare(example)
	if err != nil {
		return nil, err
	}
	for _, child := range children {
		if err := s.declareControlled(known, child); err != nil {
			return nil, err
		}
	}
	return &reconciler{Reconciler: wrapped, shard: s, kind: known}, nil
}

// again is when to look at an object again that is being handed over. If it stays after all, nobody
// else may say so: a predicate can hide that its labels have changed.
const again = 500 * time.Millisecond

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	k := key{r.kind.GroupKind(), request.NamespacedName}
	// First the guard, then the cache: what the guard lets pass was not given away before, or the
	// cache knows it.
	running, leave, ok := r.shard.guard.enter(ctx, k)
	if !ok {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	defer leave()
	object, err := r.shard.get(running, r.kind, request.NamespacedName)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // deleted, or another shard's
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if _, draining := object.GetLabels()[shardingv1alpha1.LabelDrain(r.shard.Ring())]; draining {
		r.shard.queue.Add(k)
		return reconcile.Result{RequeueAfter: again}, nil
	}
	if !r.shard.holds() {
		// The last thing to look at: a process that was paused may wake up right here, and others may
		// have its objects by now.
		return reconcile.Result{RequeueAfter: again}, nil
	}
	result, err := r.Reconciler.Reconcile(running, request)
	if errors.Is(context.Cause(running), ErrTaken) {
		return reconcile.Result{RequeueAfter: again}, nil // whatever it says, it is another shard's business now
	}
	return result, err
}
