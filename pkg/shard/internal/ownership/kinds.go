package ownership

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Kinds are the sharded kinds of this process.
type Kinds struct {
	mu   sync.Mutex
	main map[schema.GroupKind]*Kind
}

// Kind is a sharded kind.
type Kind struct {
	schema.GroupVersionKind
	// Watched has an example for each form in which controllers watch the kind: typed, unstructured or
	// metadata only. Each form has its own cache.
	Watched []client.Object
	// Controlled are the kinds of the children.
	Controlled []*Kind
	// released are called for each object that this shard no longer owns.
	released []func(reconcile.Request)
}

// maxWatched bounds the number of forms in which a kind is watched. There are three.
const maxWatched = 8

// Declare adds a main kind and a form in which it is watched. It returns the index of that form's cache.
func (k *Kinds) Declare(gvk schema.GroupVersionKind, watched client.Object) (kind *Kind, cache int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.main == nil {
		k.main = map[schema.GroupKind]*Kind{}
	}
	kind = k.main[gvk.GroupKind()]
	if kind == nil {
		kind = &Kind{GroupVersionKind: gvk}
		k.main[gvk.GroupKind()] = kind
	}
	if kind.Version != gvk.Version {
		return nil, 0, fmt.Errorf("the kind %s is sharded in the versions %s and %s: use one of them in all controllers", gvk.Kind, kind.Version, gvk.Version)
	}
	cache = slices.IndexFunc(kind.Watched, func(known client.Object) bool { return reflect.TypeOf(known) == reflect.TypeOf(watched) })
	if cache >= 0 {
		return kind, cache, nil
	}
	if len(kind.Watched) == maxWatched {
		return nil, 0, fmt.Errorf("the kind %s is watched in more than %d forms", gvk.Kind, maxWatched)
	}
	kind.Watched = append(kind.Watched, watched)
	return kind, len(kind.Watched) - 1, nil
}

// DeclareControlled adds a kind whose objects move with their controllers.
func (k *Kinds) DeclareControlled(owner *Kind, gvk schema.GroupVersionKind, watched client.Object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !owner.controls(gvk.GroupKind()) {
		owner.Controlled = append(owner.Controlled, &Kind{GroupVersionKind: gvk, Watched: []client.Object{watched}})
	}
}

func (k *Kind) controls(kind schema.GroupKind) bool {
	return slices.ContainsFunc(k.Controlled, func(controlled *Kind) bool { return controlled.GroupKind() == kind })
}

// OnReleased adds functions that are called for each object that this shard no longer owns.
func (k *Kinds) OnReleased(kind *Kind, calls ...func(reconcile.Request)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kind.released = append(kind.released, calls...)
}

// MainKinds returns the main kinds, sorted.
func (k *Kinds) MainKinds() []*Kind {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]*Kind, 0, len(k.main))
	for _, kind := range k.main {
		all = append(all, kind)
	}
	slices.SortFunc(all, func(a, b *Kind) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind)) })
	return all
}

// MainKind returns a main kind, or nil.
func (k *Kinds) MainKind(kind schema.GroupKind) *Kind {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.main[kind]
}

// Declared reports whether a kind is a main kind or a controlled kind.
func (k *Kinds) Declared(kind schema.GroupKind) bool {
	return k.MainKind(kind) != nil || slices.ContainsFunc(k.MainKinds(), func(main *Kind) bool { return main.controls(kind) })
}

// Conflict returns a kind that is both a main kind and a controlled kind, or "".
func (k *Kinds) Conflict() string {
	for _, main := range k.MainKinds() {
		for _, controlled := range main.Controlled {
			if k.MainKind(controlled.GroupKind()) != nil {
				return controlled.Kind
			}
		}
	}
	return ""
}

// New returns an empty object of the kind, in the form of one of its caches.
func (k *Kind) New(scheme *runtime.Scheme, cache int) (client.Object, error) {
	switch k.Watched[cache].(type) {
	case *metav1.PartialObjectMetadata:
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(k.GroupVersionKind)
		return object, nil
	case runtime.Unstructured:
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(k.GroupVersionKind)
		return object, nil
	}
	created, err := scheme.New(k.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	object, ok := created.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", k.GroupVersionKind)
	}
	return object, nil
}

// NewList returns an empty list of objects of the kind, in the form of its first cache.
func (k *Kind) NewList(scheme *runtime.Scheme) (client.ObjectList, error) {
	gvk := k.GroupVersionKind
	gvk.Kind += "List"
	switch k.Watched[0].(type) {
	case *metav1.PartialObjectMetadata:
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk)
		return list, nil
	case runtime.Unstructured:
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		return list, nil
	}
	created, err := scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	list, ok := created.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%s is not a list", gvk)
	}
	return list, nil
}
