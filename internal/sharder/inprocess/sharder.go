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

// Options say which ring it is.
type Options struct {
	// Ring is its name, and Namespace is where the Leases of all its shards are.
	Ring, Namespace string
	// Resources are what the ring spreads. It is asked when this process begins to be the sharder.
	Resources func() ([]shardingv1alpha1.RingResource, error)
	// Namespaces selects those whose objects are spread.
	Namespaces *metav1.LabelSelector
	// Election is the Lease that the sharder is elected with. Events are about it.
	Election *coordinationv1.Lease
	// Config is how to reach the API server, without limits: moves must not wait for reconcilers.
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
	manager    manager.Manager
	metadata   metadata.Interface
	leases     cache.Cache
	live       client.Reader // asks the API server itself
	observed   toolscache.ResourceEventHandlerRegistration
	namespaces *namespaces
	members    *members.Tracker
	rings      *catalog.Catalog
	group      *moves.Group
	metrics    *metrics.Metrics
	events     events.EventRecorder
	clock      clock.WithTicker
	appeared   chan struct{} // a namespace that is selected
}

// measured is made once: all sharders of a process share the process's registry.
var measured = sync.OnceValue(func() *metrics.Metrics { return metrics.New(ctrlmetrics.Registry) })

// Add makes a manager be the sharder of a ring while it leads. The process sees the Leases of the ring at
// all times, so that it knows, when it begins, since when a shard has been silent.
func Add(mgr manager.Manager, options Options) error {
	if options.Namespaces == nil {
		options.Namespaces = shardingv1alpha1.DefaultNamespaceSelector()
	}
	s := &Sharder{
		Options: options, manager: mgr,
		rings:   &catalog.Catalog{},
		metrics: measured(),
		events:  mgr.GetEventRecorder("sharder"),
		clock:   clock.RealClock{}, appeared: make(chan struct{}, 1),
	}
	s.members = members.New(s.clock, s.metrics.Calculated)
	// Before this process leads, too: it must know which members have just lost their Leases.
	s.members.Declare(s.Ring, []string{s.Namespace})
	var err error
	if s.metadata, err = metadata.NewForConfig(options.Config); err != nil {
		return fmt.Errorf("creating a metadata client: %w", err)
	}
	if s.namespaces, err = newNamespaces(options.Namespaces, s.metadata, s.resync, s.appear); err != nil {
		return fmt.Errorf("reading the namespace selector: %w", err)
	}
	s.group = moves.NewGroup(s.moveOptions(), func(string) {})
	if err := s.observe(); err != nil {
		return err
	}
	if err := s.showShards(); err != nil {
		return err
	}
	return errors.Join(mgr.Add(leases.Cache{Cache: s.leases}), s.addLeaseController(), mgr.Add(s))
}

// showShards lets whoever reads the metrics of this process see the shards of the ring.
func (s *Sharder) showShards() error {
	err := ctrlmetrics.Registry.Register(&metrics.State{Reader: s.leases})
	if _, twice := errors.AsType[prometheus.AlreadyRegisteredError](err); twice {
		return nil // another ring of this process is shown
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

func (s *Sharder) appear() {
	select {
	case s.appeared <- struct{}{}:
	default: // it is going to look anyway
	}
}

// settle rescues objects in namespaces that have appeared: an object's watch may be faster than the namespaces', and no
// other event would reveal the object.
func (s *Sharder) settle(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.appeared:
			if err := s.group.Mover().Rescue(ctx, s.Ring); err != nil && ctx.Err() == nil {
				logf.FromContext(ctx).V(1).Info("Could not assign the objects of a new namespace, the next rescue retries", "error", err.Error())
			}
		}
	}
}

// declaration is the ring as a ControllerRing would declare it.
func (s *Sharder) declaration() (*shardingv1alpha1.ControllerRing, error) {
	resources, err := s.Resources()
	return &shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: s.Ring},
		Spec: shardingv1alpha1.ControllerRingSpec{
			Resources: resources, NamespaceSelector: s.Namespaces, ShardNamespaces: []string{s.Namespace},
		},
	}, err
}

// NeedLeaderElection is true: one sharder is enough.
func (s *Sharder) NeedLeaderElection() bool { return true }

// Start is the sharder until ctx ends.
func (s *Sharder) Start(ctx context.Context) error {
	log := logf.FromContext(ctx).WithValues("controllerRing", s.Ring)
	ctx = logf.IntoContext(ctx, log)
	declared, err := s.declaration()
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
	if !toolscache.WaitForCacheSync(ctx.Done(), s.observed.HasSynced, s.namespaces.synced) {
		return nil // it is ending
	}
	log.Info("Started the in-process sharder")
	s.rings.Set(known)
	s.group.Ensure(s.Ring, "", 0, len(known.Resources))
	group.Go(func() { s.lookForOther(ctx) })
	group.Go(func() { s.settle(ctx) })
	for i := range known.Resources {
		// Children get their label from the shard that creates them. A watch would bring every change of every object of
		// their kinds that is not the ring's.
		if resource := &known.Resources[i]; resource.Main() {
			group.Go(func() { s.adopt(ctx, resource) })
		}
	}
	return s.group.Start(ctx)
}
