package shard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/inprocess"
)

// selectCachedNamespaces restricts the in-process sharder to the namespaces of the caches, because
// shards cannot release other objects.
func (s *Shard) selectCachedNamespaces(options cache.Options) {
	namespaces := slices.Sorted(maps.Keys(options.DefaultNamespaces))
	if !s.options.Mode.canBeSharder() || s.options.NamespaceSelector != nil || len(namespaces) == 0 || slices.Contains(namespaces, cache.AllNamespaces) {
		return
	}
	s.options.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces},
	}}
}

// namespaceSelector returns the selector of the in-process sharder.
func (s *Shard) namespaceSelector() (labels.Selector, error) {
	selector := s.options.NamespaceSelector
	if selector == nil {
		selector = shardingv1alpha1.DefaultNamespaceSelector()
	}
	return metav1.LabelSelectorAsSelector(selector)
}

// checkNamespaces returns an error if the in-process sharder would assign objects that the caches do not
// show: a shard cannot release an object that it does not see.
func (s *Shard) checkNamespaces(ctx context.Context) error {
	selector, err := s.namespaceSelector()
	if err != nil {
		return fmt.Errorf("reading NamespaceSelector in shard.Options: %w", err)
	}
	for _, main := range s.owned.MainKinds() {
		mapping, err := s.mapping(main)
		if err != nil {
			return err
		}
		log := logf.FromContext(ctx).WithValues("kind", main.Kind)
		cached := s.cache.namespacesOf(main.Watched[0], mapping.Scope)
		switch {
		case !s.options.Mode.canBeSharder() || slices.Contains(cached, cache.AllNamespaces):
		case !inprocess.OnlyNames(selector):
			log.Info("The caches have this kind only in some namespaces, but NamespaceSelector selects namespaces by labels. "+
				"Objects in other namespaces that it selects are assigned, but never reconciled or released: add those namespaces to the options of the cache", "cached", cached)
		default:
			if missing := uncached(selector, cached); missing != "" {
				return fmt.Errorf("the caches have the kind %s only in the namespaces %s, but the in-process sharder would also assign its objects in %s: "+
					"set NamespaceSelector in shard.Options to namespaces that the caches of all sharded kinds have, or add the missing ones to the options of the cache",
					main.Kind, strings.Join(cached, ", "), missing)
			}
		}
		if s.cache.selects(main.Watched[0]) {
			log.Info("The cache options select only some objects of this kind. A shard cannot release or reconcile the others: " +
				"select objects with the ControllerRing's namespaces, or with a predicate")
		}
	}
	return nil
}

// uncached describes the namespaces that a selector of names selects besides the cached ones. It
// returns "" if there are none.
func uncached(selector labels.Selector, cached []string) string {
	requirements, _ := selector.Requirements()
	for _, requirement := range requirements {
		if !slices.Contains([]selection.Operator{selection.In, selection.Equals, selection.DoubleEquals}, requirement.Operator()) {
			continue
		}
		// All selected namespaces are among the values of this requirement.
		missing := slices.DeleteFunc(requirement.ValuesUnsorted(), func(name string) bool {
			return slices.Contains(cached, name) || !selector.Matches(labels.Set{corev1.LabelMetadataName: name})
		})
		slices.Sort(missing)
		return strings.Join(missing, ", ")
	}
	return "other namespaces"
}

// namespacesOf returns the namespaces in which the caches watch objects of the same kind; "" is all of them.
func (s *splitCache) namespacesOf(object client.Object, scope meta.RESTScope) []string {
	configs := s.namespaceConfigs(object)
	_, all := configs[cache.AllNamespaces] // the other keys are namespaces with other options
	if all || len(configs) == 0 || scope.Name() == meta.RESTScopeNameRoot {
		return []string{cache.AllNamespaces}
	}
	return slices.Sorted(maps.Keys(configs))
}

// namespaceConfigs returns the user's options for the namespaces of a kind. As in controller-runtime, the
// default applies if the kind has a nil map. An empty map means all namespaces.
func (s *splitCache) namespaceConfigs(object client.Object) map[string]cache.Config {
	if config, found := s.byObject(object); found && config.Namespaces != nil {
		return config.Namespaces
	}
	return s.options.DefaultNamespaces
}

// selects reports whether the user's options restrict the caches of a kind to some labels or fields.
func (s *splitCache) selects(object client.Object) bool {
	selected := s.options.DefaultLabelSelector != nil || s.options.DefaultFieldSelector != nil
	if config, found := s.byObject(object); found {
		selected = selected || config.Label != nil || config.Field != nil
	}
	for _, config := range s.namespaceConfigs(object) {
		selected = selected || config.LabelSelector != nil || config.FieldSelector != nil
	}
	return selected
}

// byObject returns the user's options for a kind. They are for one version of it, as in controller-runtime.
func (s *splitCache) byObject(object client.Object) (config cache.ByObject, found bool) {
	kind, err := apiutil.GVKForObject(object, s.scheme)
	if err != nil {
		return cache.ByObject{}, false
	}
	for example, config := range s.options.ByObject {
		if gvk, err := apiutil.GVKForObject(example, s.scheme); err == nil && gvk == kind {
			return config, true
		}
	}
	return cache.ByObject{}, false
}
