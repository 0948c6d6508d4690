package shard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// watchedKind is a sharded kind of Watches, in a controller of a main kind.
type watchedKind struct {
	owner   *ownership.Kind
	example client.Object
}

// declare makes a kind a sharded one: the manager's caches and client have only this shard's objects of it.
func (s *Shard) declare(example client.Object) (*ownership.Kind, int, error) {
	gvk, err := s.cache.shard(example)
	if err != nil {
		return nil, 0, err
	}
	return s.owned.Declare(gvk, example)
}

// declareControlled makes a kind a sharded one whose objects follow their controllers.
func (s *Shard) declareControlled(owner *ownership.Kind, example client.Object) error {
	gvk, err := s.cache.shard(example)
	if err != nil {
		return err
	}
	s.owned.DeclareControlled(owner, gvk, example)
	return nil
}

// declareWatched makes a kind of Watches a sharded one. Whether its objects follow their controllers is known when all
// controllers have been built: if it is a main kind of one of them, they do not.
func (s *Shard) declareWatched(owner *ownership.Kind, example client.Object) error {
	if _, err := s.cache.shard(example); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched = append(s.watched, watchedKind{owner, example})
	return nil
}

// resolveWatched declares the kinds of Watches that no controller has declared: their objects follow their controllers.
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

// note makes known what this process works on in a mode in which nothing is sharded: main and its children.
func (s *Shard) note(main client.Object, children []client.Object) error {
	scheme := s.manager.GetScheme()
	gvk, err := apiutil.GVKForObject(main, scheme)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", main, err)
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
			return fmt.Errorf("finding the kind of %T: %w", child, err)
		}
		s.owned.DeclareControlled(owner, gvk, child)
	}
	return nil
}

// resources are what this process works on, as a ControllerRing would name it.
func (s *Shard) resources() ([]shardingv1alpha1.RingResource, error) {
	var all []shardingv1alpha1.RingResource
	for _, owner := range s.owned.Main() {
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
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return shardingv1alpha1.GroupResource{}, fmt.Errorf("looking up the kind %s: %w", kind.Kind, err)
	}
	return shardingv1alpha1.GroupResource{Group: mapping.Resource.Group, Resource: mapping.Resource.Resource}, nil
}

// prepare gets ready to join the ring: a shard must not be assigned objects that it cannot read or release.
func (s *Shard) prepare(ctx context.Context) error {
	if err := s.checkKinds(); err != nil {
		return err
	}
	if err := s.fill(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := s.checkPermissions(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return s.describe()
}

// checkKinds refuses a kind that is For in one controller and Owns in another, where this process may be the sharder.
func (s *Shard) checkKinds() error {
	if kind := s.owned.Conflict(); kind != "" && s.options.Mode.sharder() {
		return fmt.Errorf("the kind %s is the main kind of one controller and controlled by that of another: "+
			"an in-process sharder cannot know whether its objects follow their controllers, so shard it in one of the two only", kind)
	}
	return nil
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
	s.lease.Annotations = map[string]string{
		shardingv1alpha1.AnnotationResources: string(described), shardingv1alpha1.AnnotationNamespaceSelector: "",
	}
	if selector := s.options.NamespaceSelector; selector != nil {
		if described, err = json.Marshal(selector); err != nil {
			return err
		}
		s.lease.Annotations[shardingv1alpha1.AnnotationNamespaceSelector] = string(described)
	}
	return nil
}

// indexController is the index of children by a bucket of their controller's UID. By the UID itself it would take more
// memory than all else that a shard has more than a leader: an entry of an index costs half a kilobyte, and each would have
// one child.
const indexController = "ringmaster.controller.uid"

// indexByController is how the index finds a child.
func indexByController(object client.Object) []string {
	controller := metav1.GetControllerOfNoCopy(object)
	if controller == nil {
		return nil
	}
	return []string{bucketOf(controller.UID)}
}

// bucketOf is one of 256, so that even 100,000 children need no long search.
func bucketOf(uid types.UID) string {
	hash := fnv.New32a()
	hash.Write([]byte(uid)) // never fails
	return strconv.Itoa(int(hash.Sum32() % 256))
}

// fillTimeout is how long the first lists may take, as in controller-runtime.
const fillTimeout = 2 * time.Minute

// fill waits for the first lists. The index is added here and not before the cache starts, which would wait forever for a
// kind that cannot be listed.
func (s *Shard) fill(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	// A kind may be watched in several ways, with a cache each.
	type watched struct {
		schema.GroupKind
		as reflect.Type
	}
	indexed := map[watched]bool{}
	for _, owner := range s.owned.Main() {
		for _, kind := range append([]*ownership.Kind{owner}, owner.Controlled...) {
			for _, example := range kind.Watched {
				_, err := s.cache.own.GetInformer(limited, example)
				switch {
				case ctx.Err() != nil:
					return nil // it is told to end
				case err != nil:
					return fmt.Errorf("reading objects of the kind %s, which this shard may not be allowed to list and watch: %w", kind.Kind, err)
				}
			}
		}
		for _, controlled := range owner.Controlled {
			this := watched{controlled.GroupKind(), reflect.TypeOf(controlled.Watched[0])}
			if indexed[this] {
				continue
			}
			indexed[this] = true
			if err := s.cache.own.IndexField(ctx, controlled.Watched[0], indexController, indexByController); err != nil {
				return fmt.Errorf("indexing children of the kind %s: %w", controlled.Kind, err)
			}
		}
	}
	return nil
}

// followOwned makes ownership learn of all that happens to the main objects of this shard.
func (s *Shard) followOwned(ctx context.Context) error {
	for _, kind := range s.owned.Main() {
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
	return nil
}

// cachedObjects reads the objects of a shard from its caches.
type cachedObjects struct{ shard *Shard }

var _ ownership.Objects = &cachedObjects{}

// Get implements ownership.Objects.
func (c *cachedObjects) Get(ctx context.Context, kind *ownership.Kind, cache int, name types.NamespacedName) (client.Object, error) {
	if c.shard.cache == nil {
		return nil, errors.New("nothing is sharded")
	}
	object, err := kind.New(c.shard.cache.scheme, cache)
	if err != nil {
		return nil, err
	}
	return object, c.shard.cache.own.Get(ctx, name, object, client.UnsafeDisableDeepCopy)
}

// Each implements ownership.Objects.
func (c *cachedObjects) Each(ctx context.Context, kind *ownership.Kind, controller types.UID, visit func(client.Object) error) error {
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
		object, is := item.(client.Object)
		if !is {
			return fmt.Errorf("%T is not an object", item)
		}
		return visit(object)
	})
}
