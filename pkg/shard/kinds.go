package shard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// kinds are the sharded kinds of this process.
type kinds struct {
	mu   sync.Mutex
	main map[schema.GroupKind]*kind
}

// kind is a sharded kind.
type kind struct {
	schema.GroupVersionKind
	// example is an object of the kind as controllers watch it: typed, unstructured or metadata only.
	example client.Object
	// controlled are the kinds of which objects of this one have children.
	controlled []*kind
	// released are told of each object that is no longer this shard's.
	released []func(reconcile.Request)
}

// indexController is the index of children by the drawer of their controller's UID. By the UID itself it
// would take more memory than all else that a shard has more than a leader: an entry of an index costs half a
// kilobyte, and each would have one child.
const indexController = "ringmaster.controller.uid"

// declare makes a kind a sharded one: the manager's caches and client have only this shard's objects of
// it.
func (s *Shard) declare(example client.Object) (*kind, error) {
	gvk, err := s.cache.shard(example)
	if err != nil {
		return nil, err
	}
	return s.kinds.add(gvk, example), nil
}

// add notes a main kind.
func (k *kinds) add(gvk schema.GroupVersionKind, example client.Object) *kind {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.main[gvk.GroupKind()]; known != nil {
		return known
	}
	known := &kind{GroupVersionKind: gvk, example: example}
	k.main[gvk.GroupKind()] = known
	return known
}

// addControlled notes a kind whose objects follow their controllers.
func (k *kinds) addControlled(owner *kind, gvk schema.GroupVersionKind, example client.Object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !owner.hasControlled(gvk.GroupKind()) {
		owner.controlled = append(owner.controlled, &kind{GroupVersionKind: gvk, example: example})
	}
}

// declareControlled makes a kind a sharded one whose objects follow their controllers.
func (s *Shard) declareControlled(owner *kind, example client.Object) error {
	gvk, err := s.cache.shard(example)
	if err != nil {
		return err
	}
	s.kinds.addControlled(owner, gvk, example)
	return nil
}

// note makes known what this process works on in a mode in which nothing is sharded: main and its children.
func (s *Shard) note(main client.Object, children []client.Object) error {
	scheme := s.writer.Scheme()
	gvk, err := apiutil.GVKForObject(main, scheme)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", main, err)
	}
	owner := s.kinds.add(gvk, main)
	for _, child := range children {
		if child == nil { // its error is told elsewhere
			continue
		}
		if gvk, err = apiutil.GVKForObject(child, scheme); err != nil {
			return fmt.Errorf("finding the kind of %T: %w", child, err)
		}
		s.kinds.addControlled(owner, gvk, child)
	}
	return nil
}

// resources are what this process works on, as a ControllerRing would name it.
func (s *Shard) resources() ([]shardingv1alpha1.RingResource, error) {
	name := func(known *kind) (shardingv1alpha1.GroupResource, error) {
		mapping, err := s.mapper.RESTMapping(known.GroupKind(), known.Version)
		if err != nil {
			return shardingv1alpha1.GroupResource{}, fmt.Errorf("looking up the kind %s: %w", known.Kind, err)
		}
		return shardingv1alpha1.GroupResource{Group: mapping.Resource.Group, Resource: mapping.Resource.Resource}, nil
	}
	var all []shardingv1alpha1.RingResource
	for _, owner := range s.kinds.allMain() {
		main, err := name(owner)
		if err != nil {
			return nil, err
		}
		found := shardingv1alpha1.RingResource{GroupResource: main}
		for _, controlled := range owner.controlled {
			child, err := name(controlled)
			if err != nil {
				return nil, err
			}
			found.ControlledResources = append(found.ControlledResources, child)
		}
		all = append(all, found)
	}
	slices.SortFunc(all, func(a, b shardingv1alpha1.RingResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return all, nil
}

// describe makes the Lease tell what this shard works on.
func (s *Shard) describe() error {
	resources, err := s.resources()
	if err != nil {
		return err
	}
	described, err := json.Marshal(resources)
	if err != nil {
		return err
	}
	s.lease.resources = string(described)
	if selector := s.options.NamespaceSelector; selector != nil {
		if described, err = json.Marshal(selector); err != nil {
			return err
		}
		s.lease.namespaces = string(described)
	}
	return nil
}

func (k *kinds) allMain() []*kind {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*kind
	for _, known := range k.main {
		all = append(all, known)
	}
	return all
}

func (k *kinds) get(of schema.GroupKind) *kind {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.main[of]
}

// controllerDrawer is where the index has a child.
func controllerDrawer(object client.Object) []string {
	controller := metav1.GetControllerOfNoCopy(object)
	if controller == nil {
		return nil
	}
	return []string{drawer(controller.UID)}
}

// drawer is one of 256, so that even 100,000 children need no long search.
func drawer(uid types.UID) string {
	hash := fnv.New32a()
	hash.Write([]byte(uid)) // never fails
	return strconv.Itoa(int(hash.Sum32() % 256))
}

// fillLimit is how long the first lists may take, as in controller-runtime.
const fillLimit = 2 * time.Minute

// fill waits for the first lists. A shard that cannot read its objects must not be given any: it would
// have them and work on none. The index is added here and not before the cache starts, which would wait
// for ever for a kind that cannot be listed.
func (s *Shard) fill(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, fillLimit)
	defer cancel()
	// A kind may be watched in several ways, with a cache each.
	type watched struct {
		schema.GroupKind
		as reflect.Type
	}
	indexed := map[watched]bool{}
	for _, owner := range s.kinds.allMain() {
		for _, known := range append([]*kind{owner}, owner.controlled...) {
			_, err := s.cache.own.GetInformer(limited, known.example)
			switch {
			case ctx.Err() != nil:
				return nil // it is told to end
			case err != nil:
				return fmt.Errorf("reading objects of the kind %s, which this shard may not be allowed to list and watch: %w", known.Kind, err)
			}
		}
		for _, controlled := range owner.controlled {
			this := watched{controlled.GroupKind(), reflect.TypeOf(controlled.example)}
			if indexed[this] {
				continue
			}
			indexed[this] = true
			if err := s.cache.own.IndexField(ctx, controlled.example, indexController, controllerDrawer); err != nil {
				return fmt.Errorf("finding children of the kind %s: %w", controlled.Kind, err)
			}
		}
	}
	return nil
}

// watch makes the guard and the queue hear of all that happens to the main objects of this shard,
// whatever predicates the controllers have.
func (s *Shard) watch(ctx context.Context) error {
	for _, known := range s.kinds.allMain() {
		informer, err := s.cache.own.GetInformer(ctx, known.example)
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(s.handler(known)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Shard) handler(known *kind) toolscache.ResourceEventHandler {
	of := known.GroupKind()
	drain := shardingv1alpha1.LabelDrain(s.Ring())
	see := func(found any) {
		object, is := found.(client.Object)
		if !is {
			return
		}
		k := key{of, client.ObjectKeyFromObject(object)}
		s.guard.saw(k, object.GetResourceVersion())
		if _, draining := object.GetLabels()[drain]; draining {
			s.queue.Add(k)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, found any) { see(found) },
		DeleteFunc: func(found any) {
			name, err := toolscache.DeletionHandlingObjectToName(found)
			if err != nil {
				return
			}
			gone := types.NamespacedName{Namespace: name.Namespace, Name: name.Name}
			version := "" // not known if the end itself was missed
			if object, is := found.(client.Object); is {
				version = object.GetResourceVersion()
			}
			s.guard.lost(key{of, gone}, version)
			for _, tell := range known.released {
				tell(reconcile.Request{NamespacedName: gone})
			}
		},
	}
}

// get reads an object of this shard from the cache. It must not be changed.
func (s *Shard) get(ctx context.Context, known *kind, name types.NamespacedName) (client.Object, error) {
	object, err := fresh(s.cache.scheme, known)
	if err != nil {
		return nil, err
	}
	return object, s.cache.own.Get(ctx, name, object, client.UnsafeDisableDeepCopy)
}

func fresh(scheme *runtime.Scheme, known *kind) (client.Object, error) {
	switch known.example.(type) {
	case *metav1.PartialObjectMetadata:
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(known.GroupVersionKind)
		return object, nil
	case runtime.Unstructured:
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(known.GroupVersionKind)
		return object, nil
	}
	made, err := scheme.New(known.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	object, is := made.(client.Object)
	if !is {
		return nil, fmt.Errorf("%s is not an object", known.GroupVersionKind)
	}
	return object, nil
}

// each calls visit for the objects of this shard in the cache. They must not be changed.
func (s *Shard) each(ctx context.Context, known *kind, visit func(client.Object) error, options ...client.ListOption) error {
	list, err := freshList(s.cache.scheme, known)
	if err != nil {
		return err
	}
	if err := s.cache.own.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return err
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		object, is := item.(client.Object)
		if !is {
			return fmt.Errorf("%T is not an object", item)
		}
		return visit(object)
	})
}

func freshList(scheme *runtime.Scheme, known *kind) (client.ObjectList, error) {
	of := known.GroupVersionKind
	of.Kind += "List"
	switch known.example.(type) {
	case *metav1.PartialObjectMetadata:
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(of)
		return list, nil
	case runtime.Unstructured:
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(of)
		return list, nil
	}
	made, err := scheme.New(of)
	if err != nil {
		return nil, err
	}
	list, is := made.(client.ObjectList)
	if !is {
		return nil, fmt.Errorf("%s is not a list", of)
	}
	return list, nil
}
