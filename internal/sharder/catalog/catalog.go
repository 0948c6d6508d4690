// Package catalog knows what every ring spreads: which resources there are behind its spec, of
// which kind and scope, and by which key each of their objects is assigned.
package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
)

// Kind is a kind of objects.
type Kind struct {
	schema.GroupKind
	Namespaced bool
}

// Resource is a resource of a ring.
type Resource struct {
	// Resource is the resource in the version in which it is read and written.
	Resource schema.GroupVersionResource
	Kind     Kind
	// Controllers are the kinds that control its objects. Without any it is a main resource.
	Controllers []Kind
}

// Main tells whether the objects are assigned by their own names.
func (r *Resource) Main() bool { return len(r.Controllers) == 0 }

// Owner is the object that decides where another one belongs: itself, or its controller.
type Owner struct {
	Kind            Kind
	Namespace, Name string
}

// Key is what the owner is hashed by.
func (o Owner) Key() string { return assignment.Key(o.Kind.GroupKind, o.Namespace, o.Name) }

var (
	// ErrNotYet is why a main object has no key: it has no name yet, because the API server is going to
	// make one.
	ErrNotYet = errors.New("cannot be assigned yet")
	// ErrNotSpread is why an object of a controlled kind is none of the ring's: it has no controller that
	// the ring spreads.
	ErrNotSpread = errors.New("is not spread")
)

// Owner returns the object that decides where this one belongs.
func (r *Resource) Owner(object metav1.Object) (Owner, error) {
	if r.Main() {
		if object.GetName() == "" {
			return Owner{}, fmt.Errorf("%w: its name is generated after admission", ErrNotYet)
		}
		return Owner{Kind: r.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}, nil
	}
	kind, name, found := assignment.Controller(object.GetOwnerReferences())
	if !found {
		return Owner{}, fmt.Errorf("%w: it has no controller", ErrNotSpread)
	}
	for _, controller := range r.Controllers {
		if controller.GroupKind != kind {
			continue
		}
		owner := Owner{Kind: controller, Name: name}
		if controller.Namespaced {
			owner.Namespace = object.GetNamespace()
		}
		return owner, nil
	}
	return Owner{}, fmt.Errorf("%w: its controller is a %s, which the ring does not spread", ErrNotSpread, kind)
}

// Ring is what a ring spreads.
type Ring struct {
	Name       string
	Generation int64
	Resources  []Resource
	// Namespaces selects those whose objects are spread.
	Namespaces labels.Selector
	Drain      shardingv1alpha1.DrainPolicy
	// Settled is whether no shard has been asked to let an object go and has not.
	Settled bool
}

// Resource finds a resource of the ring.
func (r *Ring) Resource(resource schema.GroupResource) *Resource {
	for i := range r.Resources {
		if r.Resources[i].Resource.GroupResource() == resource {
			return &r.Resources[i]
		}
	}
	return nil
}

// UnknownResourceError names the resources that the API server does not know.
type UnknownResourceError struct{ Resources []schema.GroupResource }

func (e *UnknownResourceError) Error() string {
	return fmt.Sprintf("the API server does not serve %v", e.Resources)
}

// Resolve looks up what a ring spreads. With an UnknownResourceError, what it does know is returned
// as well.
func Resolve(declared *shardingv1alpha1.ControllerRing, mapper meta.RESTMapper, defaultNamespaces *metav1.LabelSelector) (*Ring, error) {
	selector := declared.Spec.NamespaceSelector
	if selector == nil {
		selector = defaultNamespaces
	}
	namespaces, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("reading the namespace selector: %w", err)
	}
	r := &Ring{
		Name: declared.Name, Generation: declared.Generation, Namespaces: namespaces,
		Settled: meta.IsStatusConditionTrue(declared.Status.Conditions, shardingv1alpha1.ConditionDrained),
	}
	if declared.Spec.Drain != nil {
		r.Drain = *declared.Spec.Drain
	}
	unknown := &UnknownResourceError{}
	for i := range declared.Spec.Resources {
		main := &declared.Spec.Resources[i]
		found, err := lookUp(main.GroupResource, mapper, unknown)
		if err != nil {
			return nil, err
		}
		if found != nil {
			r.Resources = append(r.Resources, *found)
		}
		for _, named := range main.ControlledResources {
			controlled, err := lookUp(named, mapper, unknown)
			if err != nil {
				return nil, err
			}
			// Without its main resource nobody could say where a controlled object belongs.
			if found != nil && controlled != nil {
				r.addControlled(controlled, found.Kind)
			}
		}
	}
	if len(unknown.Resources) > 0 {
		return r, unknown
	}
	return r, nil
}

// lookUp returns a resource, or nil after noting that the API server does not know it.
func lookUp(named shardingv1alpha1.GroupResource, mapper meta.RESTMapper, unknown *UnknownResourceError) (*Resource, error) {
	resource := schema.GroupResource{Group: named.Group, Resource: named.Resource}
	gvk, err := mapper.KindFor(resource.WithVersion(""))
	if meta.IsNoMatchError(err) {
		unknown.Resources = append(unknown.Resources, resource)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", resource, err)
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", resource, err)
	}
	kind := Kind{GroupKind: gvk.GroupKind(), Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}
	return &Resource{Resource: mapping.Resource, Kind: kind}, nil
}

// addControlled adds a controlled resource, or one more controller to it.
func (r *Ring) addControlled(resource *Resource, controller Kind) {
	if known := r.Resource(resource.Resource.GroupResource()); known != nil {
		known.Controllers = append(known.Controllers, controller)
		return
	}
	resource.Controllers = []Kind{controller}
	r.Resources = append(r.Resources, *resource)
}

// Source knows rings by name, or nil for one that it does not know.
type Source interface{ Get(name string) *Ring }

// Catalog is all rings. Its methods may be called from several goroutines, and Get never waits.
type Catalog struct {
	rings atomic.Pointer[map[string]*Ring]
}

// Get returns a ring, or nil.
func (c *Catalog) Get(name string) *Ring {
	if all := c.rings.Load(); all != nil {
		return (*all)[name]
	}
	return nil
}

// Names are the names of all rings, in no order.
func (c *Catalog) Names() []string {
	if all := c.rings.Load(); all != nil {
		return slices.Collect(maps.Keys(*all))
	}
	return nil
}

// Set adds or replaces a ring.
func (c *Catalog) Set(r *Ring) { c.change(func(all map[string]*Ring) { all[r.Name] = r }) }

// Delete removes a ring.
func (c *Catalog) Delete(name string) { c.change(func(all map[string]*Ring) { delete(all, name) }) }

func (c *Catalog) change(change func(map[string]*Ring)) {
	for {
		before := c.rings.Load()
		after := map[string]*Ring{}
		if before != nil {
			maps.Copy(after, *before)
		}
		change(after)
		if c.rings.CompareAndSwap(before, &after) {
			return
		}
	}
}
