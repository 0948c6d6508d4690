package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// watchedKind is a sharded kind of Watches in the controller of a main kind.
type watchedKind struct {
	owner   *ownership.Kind
	example client.Object
}

// declare shards a main kind: the manager's caches and client have only the objects that this shard owns.
func (s *Shard) declare(example client.Object) (*ownership.Kind, int, error) {
	gvk, err := s.cache.shard(example)
	if err != nil {
		return nil, 0, err
	}
	return s.owned.Declare(gvk, example)
}

// declareControlled shards a kind whose objects move with their controllers.
func (s *Shard) declareControlled(owner *ownership.Kind, example client.Object) error {
	gvk, err := s.cache.shard(example)
	if err != nil {
		return err
	}
	s.owned.DeclareControlled(owner, gvk, example)
	return nil
}

// declareWatched shards a kind of Watches. Its objects move with their controllers unless it is the
// main kind of a controller, which is known when all controllers have been built.
func (s *Shard) declareWatched(owner *ownership.Kind, example client.Object) error {
	if _, err := s.cache.shard(example); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched = append(s.watched, watchedKind{owner, example})
	return nil
}

// resolveWatched declares the kinds of Watches that no controller has declared, as controlled kinds.
func (s *Shard) resolveWatched() error {
	s.mu.Lock()
	watched := s.watched
	s.watched = nil
	s.mu.Unlock()
	for _, each := range watched {
		gvk, err := apiutil.GVKForObject(each.example, s.cache.scheme)
		if err != nil {
			return err
		}
		if !s.owned.Declared(gvk.GroupKind()) {
			s.owned.DeclareControlled(each.owner, gvk, each.example)
		}
	}
	return nil
}

// declareUnsharded records the kinds that this process reconciles in a mode that does not shard.
func (s *Shard) declareUnsharded(main client.Object, children []client.Object) error {
	scheme := s.manager.GetScheme()
	gvk, err := apiutil.GVKForObject(main, scheme)
	if err != nil {
		return fmt.Errorf("looking up the kind of %T: %w", main, err)
	}
	owner, _, err := s.owned.Declare(gvk, main)
	if err != nil {
		return err
	}
	for _, child := range children {
		if child == nil { // its error is returned elsewhere
			continue
		}
		if gvk, err = apiutil.GVKForObject(child, scheme); err != nil {
			return fmt.Errorf("looking up the kind of %T: %w", child, err)
		}
		s.owned.DeclareControlled(owner, gvk, child)
	}
	return nil
}

// resources returns the resources that this process reconciles, in the form of a ControllerRing.
func (s *Shard) resources() ([]shardingv1alpha1.RingResource, error) {
	var all []shardingv1alpha1.RingResource
	for _, owner := range s.owned.MainKinds() {
		main, err := s.resource(owner)
		if err != nil {
			return nil, err
		}
		found := shardingv1alpha1.RingResource{GroupResource: main}
		for _, controlled := range owner.Controlled {
			child, err := s.resource(controlled)
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

func (s *Shard) resource(kind *ownership.Kind) (shardingv1alpha1.GroupResource, error) {
	mapping, err := s.mapping(kind)
	if err != nil {
		return shardingv1alpha1.GroupResource{}, err
	}
	return shardingv1alpha1.GroupResource{Group: mapping.Resource.Group, Resource: mapping.Resource.Resource}, nil
}

func (s *Shard) mapping(kind *ownership.Kind) (*meta.RESTMapping, error) {
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("looking up the kind %s: %w", kind.Kind, err)
	}
	return mapping, nil
}

// indexController is the index of children by a hash bucket of their controller's UID. An index by the
// UID itself would have an entry of half a kilobyte for almost every child, which is more than all
// other memory that a shard needs in addition to that of a leader.
const indexController = "ringmaster.controller.uid"

// indexByController returns the index value of a child.
func indexByController(object client.Object) []string {
	controller := metav1.GetControllerOfNoCopy(object)
	if controller == nil {
		return nil
	}
	return []string{bucketOf(controller.UID)}
}

// bucketOf returns one of 256 buckets, so that a lookup is fast even among 100,000 children.
func bucketOf(uid types.UID) string {
	hash := fnv.New32a()
	hash.Write([]byte(uid)) // never fails
	return strconv.Itoa(int(hash.Sum32() % 256))
}

// watchOwned passes all events of this shard's main objects to ownership.
func (s *Shard) watchOwned(ctx context.Context) error {
	for _, kind := range s.owned.MainKinds() {
		for cache, example := range kind.Watched {
			informer, err := s.cache.own.GetInformer(ctx, example)
			if err != nil {
				return err
			}
			if _, err := informer.AddEventHandler(s.owned.Handler(kind, cache)); err != nil {
				return err
			}
		}
	}
	return s.countObjects(ctx)
}

// cachedObjects reads the objects of a shard from its caches.
type cachedObjects struct{ shard *Shard }

var _ ownership.Objects = &cachedObjects{}

// Get implements ownership.Objects.
func (c *cachedObjects) Get(ctx context.Context, kind *ownership.Kind, cache int, name types.NamespacedName) (client.Object, error) {
	if c.shard.cache == nil {
		return nil, errors.New("the mode of this shard does not shard objects")
	}
	object, err := kind.New(c.shard.cache.scheme, cache)
	if err != nil {
		return nil, err
	}
	return object, c.shard.cache.own.Get(ctx, name, object, client.UnsafeDisableDeepCopy)
}

// ForEach implements ownership.Objects.
func (c *cachedObjects) ForEach(ctx context.Context, kind *ownership.Kind, controller types.UID, visit func(client.Object) error) error {
	list, err := kind.NewList(c.shard.cache.scheme)
	if err != nil {
		return err
	}
	options := []client.ListOption{client.UnsafeDisableDeepCopy}
	if controller != "" {
		options = append(options, client.MatchingFields{indexController: bucketOf(controller)})
	}
	if err := c.shard.cache.own.List(ctx, list, options...); err != nil {
		return err
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is not an object", item)
		}
		return visit(object)
	})
}
