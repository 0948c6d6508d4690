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

// Sharded is the option that shards a kind: this process sees and reconciles only the objects that
// this shard owns.
type Sharded struct{ predicates }

// ApplyToFor implements builder.ForOption. Only controller-runtime's own builder calls it: it removes the
// object so that Build fails, because that controller would reconcile all objects in every process.
func (Sharded) ApplyToFor(input *builder.ForInput) {
	refuseBuilder()
	*input = builder.ForInput{}
}

// ApplyToOwns implements builder.OwnsOption. It fails as ApplyToFor does.
func (Sharded) ApplyToOwns(input *builder.OwnsInput) {
	refuseBuilder()
	*input = builder.OwnsInput{}
}

const errWrongBuilder = "shard.Sharded{} is an option of shard.ControllerManagedBy, not of controller-runtime's builder"

// wrongBuilder is true after Sharded was passed to controller-runtime's builder. An option cannot return
// an error, so the manager returns it when that builder adds the controller.
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
	// example is an object of the reconciled kind. sharded is true if For has Sharded.
	example client.Object
	sharded bool
	// main is the sharded kind and cache the index of its cache, or nil if the mode does not shard.
	main  *ownership.Kind
	cache int
	key   func(request) types.NamespacedName // the object that a request is about
	errs  []error
	// released are called for each object that this shard no longer owns.
	released []func(reconcile.Request)
	// owned has the sharded kinds of Owns, and watched those of Watches. Build declares them after the
	// main kind.
	owned, watched []client.Object
	// ownedUnsharded has the kinds of Owns without Sharded.
	ownedUnsharded []client.Object
}

// ControllerManagedBy returns a builder of a controller. Without Sharded, or in a mode that does not
// shard, the controller is an ordinary one: it reconciles all objects while the manager leads.
//
// The manager must be made with NewManager or Shard.Join. The parameter is a manager.Manager, so that
// a SetupWithManager function need not change.
func ControllerManagedBy(m manager.Manager) *Builder {
	b := TypedControllerManagedBy[reconcile.Request](m)
	b.key = keyOfRequest
	return b
}

// TypedControllerManagedBy returns a builder of a controller whose requests have a type other than
// reconcile.Request. Such a controller cannot have For; ShardedBy shards it.
func TypedControllerManagedBy[request comparable](m manager.Manager) *TypedBuilder[request] {
	wrongBuilder.Store(false) // the wrong builder may have failed before it added a controller
	b := &TypedBuilder[request]{manager: m}
	found, ok := m.(interface{ Shard() *Shard })
	if !ok || found.Shard() == nil {
		b.errs = append(b.errs, fmt.Errorf("the manager, a %T, does not belong to a shard: make it with shard.NewManager or Shard.Join", m))
		b.shard = &Shard{options: Options{Mode: ModeAlone}} // so that the other methods can be called; Build fails
		b.inner = builder.TypedControllerManagedBy[request](m)
		return b
	}
	b.shard = found.Shard()
	b.inner = builder.TypedControllerManagedBy[request](&shardingManager{Manager: m, shard: b.shard, sharded: func() bool { return b.main != nil }})
	return b
}

// shardingManager is the manager for controller-runtime's builder. It runs a sharded controller while
// this process is a member of the ring.
type shardingManager struct {
	manager.Manager
	shard   *Shard
	sharded func() bool
}

// Add implements manager.Manager.
func (m *shardingManager) Add(runnable manager.Runnable) error {
	if !m.sharded() {
		return m.Manager.Add(runnable)
	}
	return m.shard.Add(runnable)
}

// For sets the kind whose objects are reconciled. With Sharded, only objects that this shard owns are.
func (b *TypedBuilder[request]) For(object client.Object, options ...builder.ForOption) *TypedBuilder[request] {
	options, sharded := extractSharded(options)
	b.inner.For(object, options...)
	b.reconcile(object, metadataOnly(options), sharded)
	return b
}

// ShardedBy shards a controller with requests of any type by the objects of a kind. key returns the
// name of the object that a request is about. The reconciler is called only for objects that this
// shard owns.
func (b *TypedBuilder[request]) ShardedBy(object client.Object, key func(request) types.NamespacedName) *TypedBuilder[request] {
	b.key = key
	b.reconcile(object, false, true)
	return b
}

// reconcile sets the kind whose objects are reconciled.
func (b *TypedBuilder[request]) reconcile(object client.Object, onlyMetadata, sharded bool) {
	watched, err := b.projected(object, onlyMetadata)
	if err != nil {
		b.errs = append(b.errs, err)
		return
	}
	b.example, b.sharded = watched, sharded
	if !sharded || !b.shard.options.Mode.sharded() {
		b.shard.addWarmup(watched)
		return
	}
	b.main, b.cache, err = b.shard.declare(watched)
	b.errs = append(b.errs, err)
}

// Owns adds a kind whose objects are controlled by objects of the kind of For. With Sharded, these
// children move with their controllers from shard to shard; the kind must be among the ring's
// controlledResources.
func (b *TypedBuilder[request]) Owns(object client.Object, options ...builder.OwnsOption) *TypedBuilder[request] {
	options, sharded := extractSharded(options)
	b.inner.Owns(object, options...)
	watched, err := b.projected(object, metadataOnly(options))
	b.errs = append(b.errs, err)
	switch {
	case sharded:
		b.owned = append(b.owned, watched)
	case err == nil:
		b.ownedUnsharded = append(b.ownedUnsharded, watched)
	}
	if err == nil && !b.shard.options.Mode.sharded() {
		b.shard.addWarmup(watched)
	}
	return b
}

// Watches adds a kind whose events are mapped to requests. With Sharded, only events of objects that
// this shard owns are mapped. If the kind is not the main kind of another controller, its objects are
// children of the kind of For and move with their controllers, as with Owns.
func (b *TypedBuilder[request]) Watches(
	object client.Object, events handler.TypedEventHandler[client.Object, request], options ...builder.WatchesOption,
) *TypedBuilder[request] {
	options, sharded := extractSharded(options)
	b.inner.Watches(object, events, options...)
	watched, err := b.projected(object, metadataOnly(options))
	b.errs = append(b.errs, err)
	if sharded {
		b.watched = append(b.watched, watched)
	}
	if err == nil && !b.shard.options.Mode.sharded() {
		b.shard.addWarmup(watched)
	}
	return b
}

// WatchesMetadata is Watches for a kind whose metadata alone is watched and cached.
func (b *TypedBuilder[request]) WatchesMetadata(
	object client.Object, events handler.TypedEventHandler[client.Object, request], options ...builder.WatchesOption,
) *TypedBuilder[request] {
	return b.Watches(object, events, append(options, builder.OnlyMetadata)...)
}

// WatchesRawSource adds a source of requests. Requests for objects of other shards are dropped.
func (b *TypedBuilder[request]) WatchesRawSource(events source.TypedSource[request]) *TypedBuilder[request] {
	b.inner.WatchesRawSource(events)
	return b
}

// WithEventFilter adds a predicate for all events. It does not affect the release of objects.
func (b *TypedBuilder[request]) WithEventFilter(p predicate.Predicate) *TypedBuilder[request] {
	b.inner.WithEventFilter(p)
	return b
}

// WithOptions sets the options of the controller.
func (b *TypedBuilder[request]) WithOptions(options controller.TypedOptions[request]) *TypedBuilder[request] {
	b.options = options
	return b
}

// WithLogConstructor sets the function that makes the logger of a request.
func (b *TypedBuilder[request]) WithLogConstructor(construct func(*request) logr.Logger) *TypedBuilder[request] {
	b.options.LogConstructor = construct // Build passes all options at once
	return b
}

// Named sets the name of the controller. By default it is the lower-case name of the kind.
func (b *TypedBuilder[request]) Named(name string) *TypedBuilder[request] {
	b.inner.Named(name)
	return b
}

// OnReleased adds a function that is called for each object that this shard no longer owns, because
// the object was deleted or another shard owns it. The reconciler is not called for these objects, so
// drop here what it keeps of them in memory, such as metrics. The function must return quickly.
func (b *TypedBuilder[request]) OnReleased(call func(reconcile.Request)) *TypedBuilder[request] {
	b.released = append(b.released, call)
	return b
}

// Complete builds the controller.
func (b *TypedBuilder[request]) Complete(r reconcile.TypedReconciler[request]) error {
	_, err := b.Build(r)
	return err
}

// Build builds the controller and returns it.
func (b *TypedBuilder[request]) Build(r reconcile.TypedReconciler[request]) (controller.TypedController[request], error) {
	if r == nil {
		return nil, errors.New("the reconciler is nil: pass one to Build or Complete")
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
	built, err := b.inner.WithOptions(b.options).Build(r)
	if err == nil && b.main != nil {
		b.warnWithoutSharded(built.GetLogger())
	}
	return built, err
}

// warnWithoutSharded logs a warning for each kind of Owns without Sharded, although For has it: neither the
// sharder nor the shards know that its objects are children.
func (b *TypedBuilder[request]) warnWithoutSharded(log logr.Logger) {
	for _, kind := range b.ownedUnsharded {
		log.Info("Owns has no shard.Sharded{}, but For has: every shard watches all objects of this kind, and they do not move with their controllers. "+
			"Add shard.Sharded{} to Owns, and the kind to the ring's controlledResources", "kind", b.kindOf(kind))
	}
}

// kindOf returns the name of an object's kind.
func (b *TypedBuilder[request]) kindOf(object client.Object) string {
	gvk, err := apiutil.GVKForObject(object, b.manager.GetScheme())
	if err != nil {
		return fmt.Sprintf("%T", object)
	}
	return gvk.Kind
}

// check returns an error for a combination of options that is not supported.
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
		return errors.New("a sharded controller runs in every shard: leave NeedLeaderElection unset")
	case b.key == nil:
		return fmt.Errorf("a sharded controller with requests of the type %s needs ShardedBy, which maps a request to its object", reflect.TypeFor[request]())
	case b.main == nil: // the mode does not shard: one process reconciles at a time
		b.options.NeedLeaderElection = new(true)
		return errors.Join(b.callReleasedOnDeletion(), b.shard.declareUnsharded(b.example, b.owned))
	}
	return nil
}

// declareOthers declares the sharded kinds besides the main kind.
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

// callReleasedOnDeletion calls the functions of OnReleased for deleted objects, in a mode that does not shard.
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

// projected returns the object in the form in which it is watched.
func (b *TypedBuilder[request]) projected(object client.Object, onlyMetadata bool) (client.Object, error) {
	if !onlyMetadata {
		return object, nil
	}
	gvk, err := apiutil.GVKForObject(object, b.manager.GetScheme())
	if err != nil {
		return nil, fmt.Errorf("looking up the kind of %T: %w", object, err)
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(gvk)
	return metadata, nil
}

// extractSharded returns the options without Sharded, and whether Sharded was among them.
func extractSharded[T any](options []T) (rest []T, sharded bool) {
	for _, option := range options {
		if _, ok := any(option).(Sharded); ok {
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
