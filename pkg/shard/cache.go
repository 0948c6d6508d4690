package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Unfiltered is an option of Get and List for a sharded kind: it reads the objects of all shards.
// The process then watches and caches all objects of the kind, which costs the memory that sharding saves.
type Unfiltered struct{}

// ApplyToGet implements client.GetOption. The manager's client looks for the option itself.
func (Unfiltered) ApplyToGet(*client.GetOptions) {}

// ApplyToList implements client.ListOption.
func (Unfiltered) ApplyToList(*client.ListOptions) {}

// splitCache combines two caches: for sharded kinds it has the objects that this shard owns, for other
// kinds all objects.
type splitCache struct {
	scheme   *runtime.Scheme
	options  cache.Options // the user's
	own, all cache.Cache
	// newClient makes a client like the manager's that reads all objects.
	newClient func(all client.Reader) (client.Client, error)
	// onRefusal is called when an ordinary controller watches a sharded kind.
	onRefusal func(error)

	mu      sync.RWMutex
	sharded map[schema.GroupKind]bool
	used    map[schema.GroupKind]bool // unsharded kinds that were read or watched
	indexes []func(context.Context) error
	started bool
}

var _ cache.Cache = &splitCache{}

// newSplitCache makes both caches with the user's function.
func newSplitCache(newCache cache.NewCacheFunc, config *rest.Config, options cache.Options, own labels.Selector) (*splitCache, error) {
	all, err := newCache(config, options)
	if err != nil {
		return nil, err
	}
	filtered, err := newCache(config, addSelector(options, own))
	if err != nil {
		return nil, err
	}
	return &splitCache{
		scheme: options.Scheme, options: options, own: filtered, all: all, onRefusal: func(error) {},
		sharded: map[schema.GroupKind]bool{}, used: map[schema.GroupKind]bool{},
	}, nil
}

// narrow adds a selector to the default selector and to all other selectors of the options.
func addSelector(options cache.Options, own labels.Selector) cache.Options {
	namespaces := func(configs map[string]cache.Config) map[string]cache.Config {
		configs = maps.Clone(configs)
		for namespace, config := range configs {
			if config.LabelSelector != nil {
				config.LabelSelector = intersect(config.LabelSelector, own)
			}
			configs[namespace] = config
		}
		return configs
	}
	options.DefaultLabelSelector = intersect(options.DefaultLabelSelector, own)
	options.DefaultNamespaces = namespaces(options.DefaultNamespaces)
	options.ByObject = maps.Clone(options.ByObject)
	for object, config := range options.ByObject {
		if config.Label != nil {
			config.Label = intersect(config.Label, own)
		}
		config.Namespaces = namespaces(config.Namespaces)
		options.ByObject[object] = config
	}
	return options
}

// intersect returns a selector of the objects that both selectors select.
func intersect(a, b labels.Selector) labels.Selector {
	if a == nil {
		return b
	}
	requirements, selectable := b.Requirements()
	if !selectable {
		return labels.Nothing()
	}
	return a.Add(requirements...)
}

// shard shards a kind. It must be called before the kind is read or watched.
func (s *splitCache) shard(object client.Object) (schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(object, s.scheme)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[kind.GroupKind()] && !s.sharded[kind.GroupKind()] {
		return kind, fmt.Errorf("the kind %s was read or watched before it was sharded: build the sharded controllers first", kind.Kind)
	}
	s.sharded[kind.GroupKind()] = true
	return kind, nil
}

// cacheOf returns the cache that has the objects of a kind.
func (s *splitCache) cacheOf(kind schema.GroupKind) cache.Cache {
	s.mu.RLock()
	sharded, used := s.sharded[kind], s.used[kind]
	s.mu.RUnlock()
	if sharded {
		return s.own
	}
	if !used {
		s.mu.Lock()
		s.used[kind] = true
		s.mu.Unlock()
	}
	return s.all
}

func (s *splitCache) choose(object runtime.Object) (cache.Cache, error) {
	kind, err := apiutil.GVKForObject(object, s.scheme)
	if err != nil {
		return nil, err
	}
	group := kind.GroupKind()
	if _, list := object.(client.ObjectList); list {
		group.Kind = strings.TrimSuffix(group.Kind, "List")
	}
	return s.cacheOf(group), nil
}

// Get implements client.Reader.
func (s *splitCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	for _, option := range options {
		if _, unfiltered := option.(Unfiltered); unfiltered {
			return s.all.Get(ctx, key, object, options...)
		}
	}
	chosen, err := s.choose(object)
	if err != nil {
		return err
	}
	return chosen.Get(ctx, key, object, options...)
}

// List implements client.Reader.
func (s *splitCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	for _, option := range options {
		if _, unfiltered := option.(Unfiltered); unfiltered {
			return s.all.List(ctx, list, options...)
		}
	}
	chosen, err := s.choose(list)
	if err != nil {
		return err
	}
	return chosen.List(ctx, list, options...)
}

// GetInformer implements cache.Informers.
func (s *splitCache) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	chosen, err := s.choose(object)
	if err != nil {
		return nil, err
	}
	if controller, ok := ordinaryName(ctx); ok && chosen == s.own {
		err := fmt.Errorf("the ordinary controller %q watches %T, which is sharded, and would see only the objects that this shard owns: build it with "+
			"shard.ControllerManagedBy, or add shard.Sharded{} to For if it is, or build it with the manager that Unsharded returns", controller, object)
		s.onRefusal(err)
		return nil, err
	}
	return chosen.GetInformer(ctx, object, options...)
}

// ordinaryKey is the key of the name of a controller that is not sharded, in the controller's context.
type ordinaryKey struct{}

// ordinaryName returns the name of the controller that the context is of, if it is not sharded.
func ordinaryName(ctx context.Context) (name string, ok bool) {
	name, ok = ctx.Value(ordinaryKey{}).(string)
	return name, ok
}

// GetInformerForKind implements cache.Informers.
func (s *splitCache) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, options ...cache.InformerGetOption) (cache.Informer, error) {
	return s.cacheOf(kind.GroupKind()).GetInformerForKind(ctx, kind, options...)
}

// RemoveInformer implements cache.Informers.
func (s *splitCache) RemoveInformer(ctx context.Context, object client.Object) error {
	chosen, err := s.choose(object)
	if err != nil {
		return err
	}
	return chosen.RemoveInformer(ctx, object)
}

// IndexField implements client.FieldIndexer. Before Start it only records the index: operators add
// their indexes before their controllers, when the sharded kinds are not known yet.
func (s *splitCache) IndexField(ctx context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	if _, err := apiutil.GVKForObject(object, s.scheme); err != nil {
		return err
	}
	index := func(ctx context.Context) error {
		chosen, err := s.choose(object)
		if err != nil {
			return err
		}
		if err := chosen.IndexField(ctx, object, field, extract); err != nil {
			return fmt.Errorf("adding the index %q of %T: %w", field, object, err)
		}
		return nil
	}
	s.mu.Lock()
	if !s.started {
		s.indexes = append(s.indexes, index)
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	return index(ctx)
}

// Start implements cache.Informers.
func (s *splitCache) Start(ctx context.Context) error {
	s.mu.Lock()
	indexes := s.indexes
	s.indexes, s.started = nil, true
	s.mu.Unlock()
	for _, index := range indexes {
		if err := index(ctx); err != nil {
			return err
		}
	}
	var (
		group sync.WaitGroup
		errs  [2]error
	)
	group.Go(func() { errs[0] = s.own.Start(ctx) })
	group.Go(func() { errs[1] = s.all.Start(ctx) })
	group.Wait()
	return errors.Join(errs[:]...)
}

// WaitForCacheSync implements cache.Informers.
func (s *splitCache) WaitForCacheSync(ctx context.Context) bool {
	return s.own.WaitForCacheSync(ctx) && s.all.WaitForCacheSync(ctx)
}
