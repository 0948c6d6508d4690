package shard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// predicates makes Sharded an option of For, Owns and Watches.
type predicates = builder.Predicates

// Sharded is the option that makes a kind a sharded one: this process sees and works on its own
// share of its objects only.
type Sharded struct{ predicates }

// ApplyToFor implements builder.ForOption. Only controller-runtime's own builder calls it, which would make a controller
// that works on all objects in every instance. So that builder gets no object, and fails.
func (Sharded) ApplyToFor(input *builder.ForInput) {
	refuseBuilder()
	*input = builder.ForInput{}
}

// ApplyToOwns implements builder.OwnsOption, as ApplyToFor does.
func (Sharded) ApplyToOwns(input *builder.OwnsInput) {
	refuseBuilder()
	*input = builder.OwnsInput{}
}

const errWrongBuilder = "shard.Sharded{} is an option of shard.ControllerManagedBy, not of controller-runtime's builder"

// wrongBuilder is whether controller-runtime's builder was given Sharded. That builder has no way to return an error of an
// option, so the manager returns it when the builder adds the controller. A correct builder resets it: the wrong one may have
// failed before.
var wrongBuilder atomic.Bool

func refuseBuilder() {
	wrongBuilder.Store(true)
	logf.Log.Error(errors.New(errWrongBuilder), "Cannot build a controller")
}

// Builder builds a controller, as controller-runtime's builder does.
type Builder = TypedBuilder[reconcile.Request]

// TypedBuilder builds a controller with requests of any type, as controller-runtime's builder does.
type TypedBuilder[request comparable] struct {
	manager manager.Manager
	shard   *Shard
	inner   *builder.TypedBuilder[request]
	options controller.TypedOptions[request]
	// example is an object of the kind that is reconciled, and sharded is whether that is sharded. It has a main kind if
	// the mode shards anything.
	example client.Object
	sharded bool
	main    *ownership.Kind
	cache   int
	key     func(request) types.NamespacedName
	errs    []error
	// released are called for each object that is no longer this shard's.
	released []func(reconcile.Request)
	// owned are kinds whose objects follow their controllers, and watched those of Watches, to be declared once the main
	// kind is.
	owned, watched []client.Object
}

// ControllerManagedBy begins to build a controller. Without Sharded, or in a mode that shards nothing, it
// is as any other: it works on all objects, while the manager leads.
//
// The manager must be one of NewManager or Shard.Join. It is taken as a manager.Manager, so that a SetupWithManager
// function need not change.
func ControllerManagedBy(m manager.Manager) *Builder {
	b := TypedControllerManagedBy[reconcile.Request](m)
	b.key = keyOfRequest
	return b
}

// TypedControllerManagedBy begins to build a controller whose requests are of another type than reconcile.Request. Such a
// controller cannot have For; ShardedBy makes it a sharded one.
func TypedControllerManagedBy[request comparable](m manager.Manager) *TypedBuilder[request] {
	wrongBuilder.Store(false)
	b := &TypedBuilder[request]{manager: m}
	found, is := m.(interface{ Shard() *Shard })
	if !is || found.Shard() == nil {
		b.errs = append(b.errs, fmt.Errorf("the manager, a %T, does not belong to a shard: make it with shard.NewManager or Shard.Join", m))
		b.shard = &Shard{options: Options{Mode: ModeAlone}} // so that the rest can be said; Build fails
		b.inner = builder.TypedControllerManagedBy[request](m)
		return b
	}
	b.shard = found.Shard()
	b.inner = builder.TypedControllerManagedBy[request](&enlisting{Manager: m, shard: b.shard, sharded: func() bool { return b.main != nil }})
	return b
}

// enlisting is the manager that controller-runtime's builder is given. It runs a sharded controller while this process is a
// shard.
type enlisting struct {
	manager.Manager
	shard   *Shard
	sharded func() bool
}

// Add implements manager.Manager.
func (e *enlisting) Add(runnable manager.Runnable) error {
	if !e.sharded() {
		return e.Manager.Add(runnable)
	}
	return e.shard.Add(runnable)
}

// For names the kind whose objects are reconciled. With Sharded they are this shard's objects.
func (b *TypedBuilder[request]) For(object client.Object, options ...builder.ForOption) *TypedBuilder[request] {
	options, sharded := without(options)
	b.inner.For(object, options...)
	b.reconcile(object, metadataOnly(options), sharded)
	return b
}

// ShardedBy makes a controller with requests of any type a sharded one: its requests are about objects of a sharded kind, and
// key names the object of a request. The reconciler is called only for objects of this shard.
func (b *TypedBuilder[request]) ShardedBy(object client.Object, key func(request) types.NamespacedName) *TypedBuilder[request] {
	b.key = key
	b.reconcile(object, false, true)
	return b
}

// reconcile notes the kind whose objects are reconciled.
func (b *TypedBuilder[request]) reconcile(object client.Object, onlyMetadata, sharded bool) {
	watched, err := b.projected(object, onlyMetadata)
	if err != nil {
		b.errs = append(b.errs, err)
		return
	}
	b.example, b.sharded = watched, sharded
	if !sharded || !b.shard.options.Mode.spread() {
		b.shard.warm(watched)
		return
	}
	b.main, b.cache, err = b.shard.declare(watched)
	b.errs = append(b.errs, err)
}

// Owns names a kind whose objects are controlled by objects of the kind of For. With Sharded they
// follow them from shard to shard; the ring must have the kind among its controlledResources.
func (b *TypedBuilder[request]) Owns(object client.Object, options ...builder.OwnsOption) *TypedBuilder[request] {
	options, sharded := without(options)
	b.inner.Owns(object, options...)
	watched, err := b.projected(object, metadataOnly(options))
	b.errs = append(b.errs, err)
	if sharded {
		b.owned = append(b.owned, watched)
	}
	if err == nil && !b.shard.options.Mode.spread() {
		b.shard.warm(watched)
	}
	return b
}

// Watches names a kind of which events are mapped to requests. With Sharded only events of this shard's objects are: objects
// of a main kind of another controller, or else children of the kind of For, which follow their controllers as those of
// Owns do.
func (b *TypedBuilder[request]) Watches(
	object client.Object, events handler.TypedEventHandler[client.Object, request], options ...builder.WatchesOption,
) *TypedBuilder[request] {
	options, sharded := without(options)
	b.inner.Watches(object, events, options...)
	watched, err := b.projected(object, metadataOnly(options))
	b.errs = append(b.errs, err)
	if sharded {
		b.watched = append(b.watched, watched)
	}
	if err == nil && !b.shard.options.Mode.spread() {
		b.shard.warm(watched)
	}
	return b
}

// WatchesMetadata is Watches for a kind of which only the metadata is watched and cached.
func (b *TypedBuilder[request]) WatchesMetadata(
	object client.Object, events handler.TypedEventHandler[client.Object, request], options ...builder.WatchesOption,
) *TypedBuilder[request] {
	return b.Watches(object, events, append(options, builder.OnlyMetadata)...)
}

// WatchesRawSource adds a source of requests. They are dropped if their objects are not this shard's.
func (b *TypedBuilder[request]) WatchesRawSource(events source.TypedSource[request]) *TypedBuilder[request] {
	b.inner.WatchesRawSource(events)
	return b
}

// WithEventFilter adds a predicate for all events. It cannot keep an object from being handed over.
func (b *TypedBuilder[request]) WithEventFilter(p predicate.Predicate) *TypedBuilder[request] {
	b.inner.WithEventFilter(p)
	return b
}

// WithOptions sets the options of the controller.
func (b *TypedBuilder[request]) WithOptions(options controller.TypedOptions[request]) *TypedBuilder[request] {
	b.options = options
	return b
}

// WithLogConstructor sets how the logger of a request is made.
func (b *TypedBuilder[request]) WithLogConstructor(construct func(*request) logr.Logger) *TypedBuilder[request] {
	b.options.LogConstructor = construct // Build passes all options at once
	return b
}

// Named sets the name of the controller, which is the kind's otherwise.
func (b *TypedBuilder[request]) Named(name string) *TypedBuilder[request] {
	b.inner.Named(name)
	return b
}

// OnReleased adds a function that is called for each object that is no longer this shard's, because it was
// deleted or is another shard's now. The reconciler is not called for those, so whatever it keeps of them
// in memory, like metrics, should be dropped here. The function must not take long.
func (b *TypedBuilder[request]) OnReleased(call func(reconcile.Request)) *TypedBuilder[request] {
	b.released = append(b.released, call)
	return b
}

// Released is the former name of OnReleased.
//
// Deprecated: use OnReleased.
func (b *TypedBuilder[request]) Released(call func(reconcile.Request)) *TypedBuilder[request] {
	return b.OnReleased(call)
}

// Complete builds the controller.
func (b *TypedBuilder[request]) Complete(r reconcile.TypedReconciler[request]) error {
	_, err := b.Build(r)
	return err
}

// Build builds the controller and returns it.
func (b *TypedBuilder[request]) Build(r reconcile.TypedReconciler[request]) (controller.TypedController[request], error) {
	if r == nil {
		return nil, errors.New("a controller needs a reconciler")
	}
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	if b.main != nil {
		if err := b.declareOthers(); err != nil {
			return nil, err
		}
		b.options.NeedLeaderElection = new(false)
		r = &ownReconciler[request]{TypedReconciler: r, shard: b.shard, kind: b.main, cache: b.cache, key: b.key}
	} else if election := b.shard.election; election != nil && ptr.Deref(b.options.NeedLeaderElection, true) {
		r = &leadingReconciler[request]{TypedReconciler: r, election: election}
	}
	return b.inner.WithOptions(b.options).Build(r)
}

// check returns what is not possible.
func (b *TypedBuilder[request]) check() error {
	switch {
	case !b.sharded && len(b.owned) > 0:
		return errors.New("Owns with shard.Sharded{} requires a sharded For: add shard.Sharded{} to For")
	case !b.sharded && len(b.watched) > 0:
		return errors.New("Watches with shard.Sharded{} requires a sharded For: add shard.Sharded{} to For")
	case !b.sharded && len(b.released) > 0:
		return errors.New("only objects of a sharded kind are released: add shard.Sharded{} to For")
	case !b.sharded:
		return nil
	case ptr.Deref(b.options.NeedLeaderElection, false):
		return errors.New("a sharded controller works in every instance: leave NeedLeaderElection unset")
	case b.key == nil:
		return fmt.Errorf("a sharded controller with requests of the type %s needs ShardedBy, to find the objects of its requests", reflect.TypeFor[request]())
	case b.main == nil: // one instance works, whatever is right for a shard
		b.options.NeedLeaderElection = new(true)
		return errors.Join(b.callReleasedOnDeletion(), b.shard.note(b.example, b.owned))
	}
	return nil
}

// declareOthers declares all that is sharded besides the main kind.
func (b *TypedBuilder[request]) declareOthers() error {
	b.shard.owned.OnReleased(b.main, b.released...)
	for _, owned := range b.owned {
		if err := b.shard.declareControlled(b.main, owned); err != nil {
			return err
		}
	}
	for _, watched := range b.watched {
		if err := b.shard.declareWatched(b.main, watched); err != nil {
			return err
		}
	}
	return b.shard.checkKinds()
}

// callReleasedOnDeletion calls the functions of OnReleased where nothing is sharded: for what is deleted.
func (b *TypedBuilder[request]) callReleasedOnDeletion() error {
	if len(b.released) == 0 {
		return nil
	}
	informer, err := b.manager.GetCache().GetInformer(context.Background(), b.example, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(found any) {
		name, err := toolscache.DeletionHandlingObjectToName(found)
		if err != nil {
			return
		}
		for _, call := range b.released {
			call(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: name.Namespace, Name: name.Name}})
		}
	}})
	return err
}

// projected is the object as it is watched.
func (b *TypedBuilder[request]) projected(object client.Object, onlyMetadata bool) (client.Object, error) {
	if !onlyMetadata {
		return object, nil
	}
	gvk, err := apiutil.GVKForObject(object, b.manager.GetScheme())
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", object, err)
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(gvk)
	return metadata, nil
}

// without returns the options that controller-runtime knows, and whether Sharded was among them.
func without[T any](options []T) (rest []T, sharded bool) {
	for _, option := range options {
		if _, is := any(option).(Sharded); is {
			sharded = true
			continue
		}
		rest = append(rest, option)
	}
	return rest, sharded
}

func metadataOnly[T any](options []T) bool {
	for _, option := range options {
		if any(option) == any(builder.OnlyMetadata) {
			return true
		}
	}
	return false
}
