package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Unfiltered is an option of Get and List for a sharded kind: it reads the objects of all shards.
// The process then watches and keeps all of them, which sharding was meant to spare it.
type Unfiltered struct{}

// ApplyToGet implements client.GetOption. The manager's client looks for the option itself.
func (Unfiltered) ApplyToGet(*client.GetOptions) {}

// ApplyToList implements client.ListOption.
func (Unfiltered) ApplyToList(*client.ListOptions) {}

// splitCache is two caches in one: of sharded kinds it has this shard's objects, of others all.
type splitCache struct {
	scheme   *runtime.Scheme
	options  cache.Options // the user's
	own, all cache.Cache
	// newClient makes a client as the manager's, which reads all objects.
	newClient func(all client.Reader) (client.Client, error)
	// refuse is told of an ordinary controller that watches a sharded kind.
	refuse func(error)

	mu      sync.RWMutex
	sharded map[schema.GroupKind]bool
	used    map[schema.GroupKind]bool // unsharded kinds that somebody has asked for
	indexes []func(context.Context) error
	started bool
}

var _ cache.Cache = &splitCache{}

// newSplitCache makes both caches as a user's own function would make the one.
func newSplitCache(newCache cache.NewCacheFunc, config *rest.Config, options cache.Options, own labels.Selector) (*splitCache, error) {
	all, err := newCache(config, options)
	if err != nil {
		return nil, err
	}
	filtered, err := newCache(config, narrow(options, own))
	if err != nil {
		return nil, err
	}
	return &splitCache{
		scheme: options.Scheme, options: options, own: filtered, all: all, refuse: func(error) {},
		sharded: map[schema.GroupKind]bool{}, used: map[schema.GroupKind]bool{},
	}, nil
}

// narrow adds a selector wherever the options have one or could have one.
func narrow(options cache.Options, own labels.Selector) cache.Options {
	namespaces := func(configs map[string]cache.Config) map[string]cache.Config {
		configs = maps.Clone(configs)
		for namespace, config := range configs {
			if config.LabelSelector != nil {
				config.LabelSelector = both(config.LabelSelector, own)
			}
			configs[namespace] = config
		}
		return configs
	}
	options.DefaultLabelSelector = both(options.DefaultLabelSelector, own)
	options.DefaultNamespaces = namespaces(options.DefaultNamespaces)
	options.ByObject = maps.Clone(options.ByObject)
	for object, config := range options.ByObject {
		if config.Label != nil {
			config.Label = both(config.Label, own)
		}
		config.Namespaces = namespaces(config.Namespaces)
		options.ByObject[object] = config
	}
	return options
}

func both(a, b labels.Selector) labels.Selector {
	if a == nil {
		return b
	}
	requirements, selectable := b.Requirements()
	if !selectable {
		return labels.Nothing()
	}
	return a.Add(requirements...)
}

// shard makes a kind a sharded one. It has to be known before the kind is used.
func (s *splitCache) shard(object client.Object) (schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(object, s.scheme)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[kind.GroupKind()] && !s.sharded[kind.GroupKind()] {
		return kind, fmt.Errorf("%s is sharded, but was read or watched before that was said: build the sharded controllers first", kind.Kind)
	}
	s.sharded[kind.GroupKind()] = true
	return kind, nil
}

// of returns the cache that has the objects of a kind.
func (s *splitCache) of(kind schema.GroupKind) cache.Cache {
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
	return s.of(group), nil
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
	if ordinary(ctx) && chosen == s.own {
		err := fmt.Errorf("an ordinary controller watches %T, which is sharded, and would see only this shard's objects: build it with "+
			"shard.ControllerManagedBy and shard.Sharded{}, or with the manager that Unsharded returns", object)
		s.refuse(err)
		return nil, err
	}
	return chosen.GetInformer(ctx, object, options...)
}

// ordinaryKey marks the contexts of controllers that were built without this package.
type ordinaryKey struct{}

func ordinary(ctx context.Context) bool { return ctx.Value(ordinaryKey{}) != nil }

// namespacesOf are the namespaces in which the caches watch objects like one; "" is all of them.
func (s *splitCache) namespacesOf(object client.Object, scope meta.RESTScope) []string {
	if scope.Name() == meta.RESTScopeNameRoot {
		return []string{""}
	}
	configs := s.options.DefaultNamespaces
	kind, err := apiutil.GVKForObject(object, s.scheme)
	for example, config := range s.options.ByObject {
		if of, ofErr := apiutil.GVKForObject(example, s.scheme); err == nil && ofErr == nil && of.GroupKind() == kind.GroupKind() && len(config.Namespaces) > 0 {
			configs = config.Namespaces
		}
	}
	if len(configs) == 0 {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(configs))
}

// GetInformerForKind implements cache.Informers.
func (s *splitCache) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, options ...cache.InformerGetOption) (cache.Informer, error) {
	return s.of(kind.GroupKind()).GetInformerForKind(ctx, kind, options...)
}

// RemoveInformer implements cache.Informers.
func (s *splitCache) RemoveInformer(ctx context.Context, object client.Object) error {
	chosen, err := s.choose(object)
	if err != nil {
		return err
	}
	return chosen.RemoveInformer(ctx, object)
}

// IndexField implements client.FieldIndexer. Before the start it only notes what is wanted: people
// add their indexes before their controllers, when it is not known yet which kinds are sharded.
func (s *splitCache) IndexField(ctx context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	if _, err := apiutil.GVKForObject(object, s.scheme); err != nil {
		return err
	}
	index := func(ctx context.Context) error {
		chosen, err := s.choose(object)
		if err != nil {
			return err
		}
		return chosen.IndexField(ctx, object, field, extract)
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
			return fmt.Errorf("adding an index: %w", err)
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
