// Package catalog resolves the spec of each ring: its resources with their kinds and scopes, and the
// key by which each object is assigned.
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

// Kind is a kind with its scope.
type Kind struct {
	schema.GroupKind
	Namespaced bool
}

// Resource is a resource of a ring.
type Resource struct {
	// Resource has the version in which objects are read and written.
	Resource schema.GroupVersionResource
	Kind     Kind
	// Controllers are the kinds that control its objects. A main resource has none.
	Controllers []Kind
}

// Main reports whether this is a main resource, whose objects are assigned by their own names.
func (r *Resource) Main() bool { return len(r.Controllers) == 0 }

// MainObject identifies the object by which another one is assigned: its controller, or itself.
type MainObject struct {
	Kind            Kind
	Namespace, Name string
}

// Key is hashed to find the owner in the ring.
func (o MainObject) Key() string { return assignment.Key(o.Kind.GroupKind, o.Namespace, o.Name) }

var (
	// ErrNoNameYet is returned for a main object whose name the API server generates after admission.
	ErrNoNameYet = errors.New("cannot be assigned yet")
	// ErrNotSharded is returned for an object of a controlled resource without a controller in the ring.
	ErrNotSharded = errors.New("is not sharded")
)

// MainObject returns the object by which this one is assigned.
func (r *Resource) MainObject(object metav1.Object) (MainObject, error) {
	if r.Main() {
		if object.GetName() == "" {
			return MainObject{}, fmt.Errorf("%w: its name is generated after admission", ErrNoNameYet)
		}
		return MainObject{Kind: r.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}, nil
	}
	kind, name, found := assignment.Controller(object.GetOwnerReferences())
	if !found {
		return MainObject{}, fmt.Errorf("%w: it has no controller", ErrNotSharded)
	}
	for _, controller := range r.Controllers {
		if controller.GroupKind != kind {
			continue
		}
		main := MainObject{Kind: controller, Name: name}
		if controller.Namespaced {
			main.Namespace = object.GetNamespace()
		}
		return main, nil
	}
	return MainObject{}, fmt.Errorf("%w: its controller is a %s, which the ring does not list", ErrNotSharded, kind)
}

// Ring is the resolved spec of a ring.
type Ring struct {
	Name       string
	Generation int64
	Resources  []Resource
	// Namespaces selects the namespaces whose objects are sharded.
	Namespaces labels.Selector
	Drain      shardingv1alpha1.DrainPolicy
	// Drained is whether the ring's status says that no drains are outstanding.
	Drained bool
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

// UnknownResourceError names the resources of a ring that are left out.
type UnknownResourceError struct {
	// Resources are those that the API server does not serve.
	Resources []schema.GroupResource
	// Protected are those that control the cluster itself. The schema of rings refuses them, but not that of another
	// version or project.
	Protected []schema.GroupResource
}

func (e *UnknownResourceError) Error() string {
	if len(e.Resources) == 0 {
		return fmt.Sprintf("%v cannot be sharded", e.Protected)
	}
	return fmt.Sprintf("the API server does not serve %v", e.Resources)
}

// Resolve resolves the spec of a ring. With an UnknownResourceError, it returns the known resources as well.
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
		Drained: meta.IsStatusConditionTrue(declared.Status.Conditions, shardingv1alpha1.ConditionDrained),
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
			// A controlled object cannot be assigned without its main resource.
			if found != nil && controlled != nil {
				r.addControlled(controlled, found.Kind)
			}
		}
	}
	if len(unknown.Resources) > 0 || len(unknown.Protected) > 0 {
		return r, unknown
	}
	return r, nil
}

// lookUp returns a resource, or nil after adding it to unknown.
func lookUp(named shardingv1alpha1.GroupResource, mapper meta.RESTMapper, unknown *UnknownResourceError) (*Resource, error) {
	resource := schema.GroupResource{Group: named.Group, Resource: named.Resource}
	if named.IsProtected() {
		unknown.Protected = append(unknown.Protected, resource)
		return nil, nil
	}
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

// Source returns rings by name, or nil for an unknown one.
type Source interface{ Get(name string) *Ring }

// Catalog has all rings. It is safe for concurrent use, and Get never blocks.
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

// Names returns the names of all rings, in no particular order.
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
