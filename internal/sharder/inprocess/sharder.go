package inprocess

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/leases"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
	"github.com/ringmaster-project/ringmaster/internal/sharder/metrics"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
)

// Options configure the Sharder.
type Options struct {
	// Ring is the name of the ring, and Namespace the namespace of its shards' Leases.
	Ring, Namespace string
	// Resources returns the resources of the ring. It is called when this process starts to lead.
	Resources func() ([]shardingv1alpha1.RingResource, error)
	// Namespaces selects the namespaces whose objects are sharded.
	Namespaces *metav1.LabelSelector
	// Election is the leader election Lease of the sharder. Events are about it.
	Election *coordinationv1.Lease
	// Config is the client configuration, without a rate limit: moves must not wait for reconcilers.
	Config *rest.Config
}

// The same as the external sharder's defaults.
const (
	syncPeriod      = 5 * time.Minute
	concurrentMoves = 100
)

// Sharder is the sharder of one ring, while its process leads.
type Sharder struct {
	Options
	manager        manager.Manager
	metadata       metadata.Interface
	leases         cache.Cache
	apiReader      client.Reader // without a cache
	leaseEvents    toolscache.ResourceEventHandlerRegistration
	namespaces     *namespaces
	members        *members.Tracker
	rings          *catalog.Catalog
	group          *moves.Group
	metrics        *metrics.Metrics
	events         events.EventRecorder
	clock          clock.WithTicker
	namespaceAdded chan struct{} // has a value when a selected namespace was created
}

// sharedMetrics are created once, because all sharders of a process share its registry.
var sharedMetrics = sync.OnceValue(func() *metrics.Metrics { return metrics.New(ctrlmetrics.Registry) })

// Add adds a Sharder to a manager, which runs it while it leads. The Leases of the ring are tracked at all
// times, so that a new leader knows when it last observed a renewal of each shard.
func Add(mgr manager.Manager, options Options) error {
	if options.Namespaces == nil {
		options.Namespaces = shardingv1alpha1.DefaultNamespaceSelector()
	}
	s := &Sharder{
		Options: options, manager: mgr,
		rings:   &catalog.Catalog{},
		metrics: sharedMetrics(),
		events:  mgr.GetEventRecorder("sharder"),
		clock:   clock.RealClock{}, namespaceAdded: make(chan struct{}, 1),
	}
	s.members = members.New(s.clock, s.metrics.Calculated)
	// Also before this process leads: it must know which members have just lost their Leases.
	s.members.Declare(s.Ring, []string{s.Namespace})
	var err error
	if s.metadata, err = metadata.NewForConfig(options.Config); err != nil {
		return fmt.Errorf("creating a metadata client: %w", err)
	}
	if s.namespaces, err = newNamespaces(options.Namespaces, s.metadata, s.resync, s.onNamespaceAdded); err != nil {
		return fmt.Errorf("reading the namespace selector: %w", err)
	}
	s.group = moves.NewGroup(s.moveOptions(), func(string) {})
	if err := s.watchLeases(); err != nil {
		return err
	}
	if err := s.registerShardMetrics(); err != nil {
		return err
	}
	return errors.Join(mgr.Add(leases.Cache{Cache: s.leases}), s.addLeaseController(), mgr.Add(s))
}

// registerShardMetrics adds the metrics of the ring's shards to the registry.
func (s *Sharder) registerShardMetrics() error {
	err := ctrlmetrics.Registry.Register(&metrics.State{Reader: s.leases})
	if _, twice := errors.AsType[prometheus.AlreadyRegisteredError](err); twice {
		return nil // by the sharder of another ring in this process
	}
	return err
}

func (s *Sharder) moveOptions() moves.Options {
	options := moves.Options{
		Metadata:        s.metadata,
		Rings:           s.rings,
		Members:         s.members,
		Holders:         s.holders,
		Selects:         func(_ *catalog.Ring, namespace string) bool { return s.namespaces.selects(namespace) },
		NoWebhook:       true,
		SyncPeriod:      syncPeriod,
		ConcurrentMoves: concurrentMoves,
		Clock:           s.clock,
	}
	s.metrics.Measure(&options)
	return options
}

func (s *Sharder) resync() { s.group.Resync(s.Ring) }

func (s *Sharder) onNamespaceAdded() {
	select {
	case s.namespaceAdded <- struct{}{}:
	default: // a rescue is already pending
	}
}

// rescueNewNamespaces rescues the objects of new namespaces: the watch of an object can be faster than the watch of
// namespaces, and no other event would reveal the object.
func (s *Sharder) rescueNewNamespaces(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.namespaceAdded:
			if err := s.group.Mover().Rescue(ctx, s.Ring); err != nil && ctx.Err() == nil {
				logf.FromContext(ctx).V(1).Info("Failed to assign the objects of a new namespace, the next rescue retries", "error", err.Error())
			}
		}
	}
}

// declared returns the ControllerRing that would declare this ring.
func (s *Sharder) declared() (*shardingv1alpha1.ControllerRing, error) {
	resources, err := s.Resources()
	return &shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: s.Ring},
		Spec: shardingv1alpha1.ControllerRingSpec{
			Resources: resources, NamespaceSelector: s.Namespaces, ShardNamespaces: []string{s.Namespace},
		},
	}, err
}

// NeedLeaderElection is true: a ring has one in-process sharder at a time.
func (s *Sharder) NeedLeaderElection() bool { return true }

// Start runs the sharder until ctx ends.
func (s *Sharder) Start(ctx context.Context) error {
	log := logf.FromContext(ctx).WithValues("controllerRing", s.Ring)
	ctx = logf.IntoContext(ctx, log)
	declared, err := s.declared()
	if err != nil {
		return fmt.Errorf("resolving the resources of the ring: %w", err)
	}
	known, err := catalog.Resolve(declared, s.manager.GetRESTMapper(), nil)
	if err != nil {
		return fmt.Errorf("resolving the resources of the ring: %w", err)
	}
	if len(known.Resources) == 0 {
		return errors.New("no resources to shard: no controller has a kind with shard.Sharded{}")
	}
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { s.namespaces.run(ctx) })
	if !toolscache.WaitForCacheSync(ctx.Done(), s.leaseEvents.HasSynced, s.namespaces.synced) {
		return nil // the manager is stopping
	}
	log.Info("Started the in-process sharder")
	s.rings.Set(known)
	s.group.Ensure(s.Ring, "", 0, len(known.Resources))
	group.Go(func() { s.watchExternalSharder(ctx) })
	group.Go(func() { s.rescueNewNamespaces(ctx) })
	for i := range known.Resources {
		// Children get their label from the shard that creates them. A watch would receive every change of all
		// objects of their kinds that are not in the ring.
		if resource := &known.Resources[i]; resource.Main() {
			group.Go(func() { s.assignNewObjects(ctx, resource) })
		}
	}
	return s.group.Start(ctx)
}
