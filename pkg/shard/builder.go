package shard

import (
	"context"
	"errors"
	"fmt"

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
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// predicates makes Sharded an option of For, Owns and Watches.
type predicates = builder.Predicates

// Sharded is the option that makes a kind a sharded one: this process sees and works on its own
// share of its objects only.
type Sharded struct{ predicates }

// ApplyToFor implements builder.ForOption. It is called by controller-runtime's own builder only, which
// would make a controller that works on all objects in every instance.
func (Sharded) ApplyToFor(*builder.ForInput) { panic(wrongBuilder) }

// ApplyToOwns implements builder.OwnsOption.
func (Sharded) ApplyToOwns(*builder.OwnsInput) { panic(wrongBuilder) }

const wrongBuilder = "shard.Sharded{} is an option of shard.ControllerManagedBy, not of controller-runtime's builder"

// Builder builds a controller, as controller-runtime's builder does.
type Builder struct {
	manager *Manager
	inner   *builder.Builder
	options controller.Options
	// example is an object of the kind of For, and sharded is whether that is to be spread. It is, and has a
	// main kind, if the mode spreads anything.
	example  client.Object
	sharded  bool
	main     *kind
	errs     []error
	released []func(reconcile.Request)
	// owned are kinds whose objects follow their controllers, to be declared once the main kind is.
	owned []client.Object
}

// ControllerManagedBy begins to build a controller. Without Sharded, or in a mode that spreads nothing, it
// is as any other: it works on all objects, while the manager leads.
func ControllerManagedBy(m *Manager) *Builder {
	b := &Builder{manager: m}
	b.inner = builder.ControllerManagedBy(&enlisting{Manager: m.Manager, builder: b})
	return b
}

// enlisting is the manager that controller-runtime's builder is shown. It runs a sharded controller
// while this process is a shard.
type enlisting struct {
	manager.Manager
	builder *Builder
}

// Add implements manager.Manager.
func (e *enlisting) Add(runnable manager.Runnable) error {
	if e.builder.main == nil {
		return e.Manager.Add(runnable)
	}
	return e.builder.manager.shard.Add(runnable)
}

// For names the kind whose objects are reconciled. With Sharded they are this shard's objects.
func (b *Builder) For(object client.Object, options ...builder.ForOption) *Builder {
	options, sharded := without(options)
	b.inner.For(object, options...)
	watched, err := b.projected(object, metadataOnly(options))
	if err != nil {
		b.errs = append(b.errs, err)
		return b
	}
	b.example, b.sharded = watched, sharded
	if !sharded || !b.manager.shard.options.Mode.spread() {
		b.manager.shard.warm(watched)
		return b
	}
	b.main, err = b.manager.shard.declare(watched)
	b.errs = append(b.errs, err)
	return b
}

// Owns names a kind whose objects are controlled by objects of the kind of For. With Sharded they
// follow them from shard to shard; the ring must have the kind among its controlledResources.
func (b *Builder) Owns(object client.Object, options ...builder.OwnsOption) *Builder {
	options, sharded := without(options)
	b.inner.Owns(object, options...)
	watched, err := b.projected(object, metadataOnly(options))
	b.errs = append(b.errs, err)
	if sharded {
		b.owned = append(b.owned, watched)
	}
	if err == nil && !b.manager.shard.options.Mode.spread() {
		b.manager.shard.warm(watched)
	}
	return b
}

// Watches names a kind of which events are mapped to requests. With Sharded only events of this
// shard's objects are.
func (b *Builder) Watches(object client.Object, events handler.EventHandler, options ...builder.WatchesOption) *Builder {
	options, sharded := without(options)
	b.inner.Watches(object, events, options...)
	watched, err := b.projected(object, metadataOnly(options))
	switch spread := b.manager.shard.options.Mode.spread(); {
	case err != nil:
	case !spread:
		b.manager.shard.warm(watched)
	case sharded:
		_, err = b.manager.shard.cache.shard(object)
	}
	b.errs = append(b.errs, err)
	return b
}

// WatchesRawSource adds a source of requests. They are dropped if their objects are not this shard's.
func (b *Builder) WatchesRawSource(events source.Source) *Builder {
	b.inner.WatchesRawSource(events)
	return b
}

// WithEventFilter adds a predicate for all events. It cannot keep an object from being handed over.
func (b *Builder) WithEventFilter(p predicate.Predicate) *Builder {
	b.inner.WithEventFilter(p)
	return b
}

// WithOptions sets the options of the controller.
func (b *Builder) WithOptions(options controller.Options) *Builder {
	b.options = options
	return b
}

// WithLogConstructor sets how the logger of a request is made.
func (b *Builder) WithLogConstructor(construct func(*reconcile.Request) logr.Logger) *Builder {
	b.options.LogConstructor = construct // Build gives all options at once
	return b
}

// Named sets the name of the controller, which is the kind's otherwise.
func (b *Builder) Named(name string) *Builder {
	b.inner.Named(name)
	return b
}

// Released adds a function that is told of each object that is no longer this shard's, because it was
// deleted or is another shard's now. The reconciler is not called for those, so what it keeps of them
// in memory, like metrics, is to be forgotten here. The function must not take long.
func (b *Builder) Released(tell func(reconcile.Request)) *Builder {
	b.released = append(b.released, tell)
	return b
}

// Complete builds the controller.
func (b *Builder) Complete(r reconcile.Reconciler) error {
	_, err := b.Build(r)
	return err
}

// Build builds the controller and returns it.
func (b *Builder) Build(r reconcile.Reconciler) (controller.Controller, error) {
	if r == nil {
		return nil, errors.New("a controller needs a reconciler")
	}
	b.check()
	if b.main != nil {
		r = b.shard(r)
	}
	if leads := b.manager.shard.candidacy; leads != nil && b.main == nil && ptr.Deref(b.options.NeedLeaderElection, true) {
		r = &leading{Reconciler: r, candidacy: leads}
	}
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	return b.inner.WithOptions(b.options).Build(r)
}

// check notes what cannot be.
func (b *Builder) check() {
	if b.sharded {
		if ptr.Deref(b.options.NeedLeaderElection, false) {
			b.errs = append(b.errs, errors.New("a sharded controller works in every instance: leave NeedLeaderElection unset"))
		}
		if b.main == nil { // one instance works, whatever is right for a shard
			b.options.NeedLeaderElection = new(true)
			b.errs = append(b.errs, b.tellDeleted(), b.manager.shard.note(b.example, b.owned))
		}
		return
	}
	if len(b.owned) > 0 {
		b.errs = append(b.errs, errors.New("objects that a sharded kind owns can be sharded only if that is: add shard.Sharded{} to For"))
	}
	if len(b.released) > 0 {
		b.errs = append(b.errs, errors.New("only objects of a sharded kind are released: add shard.Sharded{} to For"))
	}
}

// shard declares what is sharded, and makes the reconciler work on this shard's objects only.
func (b *Builder) shard(r reconcile.Reconciler) reconcile.Reconciler {
	b.main.released = append(b.main.released, b.released...)
	for _, owned := range b.owned {
		if owned != nil {
			b.errs = append(b.errs, b.manager.shard.declareControlled(b.main, owned))
		}
	}
	b.options.NeedLeaderElection = new(false)
	return &reconciler{Reconciler: r, shard: b.manager.shard, kind: b.main}
}

// tellDeleted tells who wants to know what is released, where nothing is spread: what is deleted.
func (b *Builder) tellDeleted() error {
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
		for _, tell := range b.released {
			tell(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: name.Namespace, Name: name.Name}})
		}
	}})
	return err
}

// projected is the object as it is watched.
func (b *Builder) projected(object client.Object, onlyMetadata bool) (client.Object, error) {
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
