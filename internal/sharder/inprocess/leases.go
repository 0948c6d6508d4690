package inprocess

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/leases"
)

// watchLeases starts to track the Leases of the ring, in a cache of its own: the operator's cache may have
// other Leases, or none.
func (s *Sharder) watchLeases() error {
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		return err
	}
	leaseCache, err := cache.New(s.Config, cache.Options{
		Scheme:               scheme,
		Mapper:               s.manager.GetRESTMapper(),
		DefaultNamespaces:    map[string]cache.Config{s.Namespace: {}},
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{shardingv1alpha1.LabelControllerRing: s.Ring}),
		DefaultTransform:     leases.Strip,
	})
	if err != nil {
		return fmt.Errorf("creating a cache for leases: %w", err)
	}
	s.leases = leaseCache
	informer, err := leaseCache.GetInformer(context.Background(), &coordinationv1.Lease{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching leases: %w", err)
	}
	s.leaseEvents, err = leases.Follow(informer, s.members)
	return err
}

// holders reads from the API server which shards hold their Leases.
func (s *Sharder) holders(ctx context.Context, ring string) (map[string]bool, error) {
	found := &coordinationv1.LeaseList{}
	err := s.apiReader.List(ctx, found, client.InNamespace(s.Namespace), client.MatchingLabels{shardingv1alpha1.LabelControllerRing: ring})
	if err != nil {
		return nil, fmt.Errorf("listing leases: %w", err)
	}
	return s.members.Holders(ring, found.Items), nil
}

// addLeaseController adds the controller that shows the states of shards and takes over expired Leases.
func (s *Sharder) addLeaseController() error {
	apiReader, err := client.New(s.Config, client.Options{Mapper: s.manager.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("creating a client for leases: %w", err)
	}
	cached, err := client.New(s.Config, client.Options{
		Mapper: s.manager.GetRESTMapper(),
		Cache:  &client.CacheOptions{Reader: s.leases},
	})
	if err != nil {
		return fmt.Errorf("creating a client for leases: %w", err)
	}
	s.apiReader = apiReader
	// Not with the root package of controller-runtime: that defines a flag, and this is a library.
	return builder.ControllerManagedBy(s.manager).
		Named("shardlease").
		WithOptions(controller.Options{SkipNameValidation: new(true)}). // a process may have several rings
		WatchesRawSource(source.Kind(s.leases, &coordinationv1.Lease{}, &handler.TypedEnqueueRequestForObject[*coordinationv1.Lease]{})).
		Complete(&leases.Reconciler{
			Client: cached,
			Shards: s.members,
			Ring: func(context.Context, string) (*shardingv1alpha1.ControllerRing, error) {
				return s.declared()
			},
			OtherSharderActive: func(string) bool { return false },
			Events:             s.events,
			Clock:              s.clock,
			Transition:         s.metrics.Transition,
		})
}
