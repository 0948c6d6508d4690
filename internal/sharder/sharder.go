// Package sharder assembles the external sharder: the controllers for rings, Leases and moves, which
// the leader runs, and the webhook, which every replica serves.
//
// It promises that its cost does not grow with the number of sharded objects: it watches
// rings, the Leases of shards and the metadata of namespaces, and nothing else.
package sharder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/admission"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/leases"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
	"github.com/ringmaster-project/ringmaster/internal/sharder/metrics"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
	"github.com/ringmaster-project/ringmaster/internal/sharder/othersharders"
)

// Scheme returns a scheme with all kinds that the sharder reads and writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, shardingv1alpha1.AddToScheme, configv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// CacheOptions restrict the cache to the objects of the sharder.
func CacheOptions() cache.Options {
	selector := hasLabel(shardingv1alpha1.LabelControllerRing)
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&coordinationv1.Lease{}:                                 {Label: selector, Transform: leases.Strip},
			&admissionregistrationv1.MutatingWebhookConfiguration{}: {Label: selector},
		},
	}
}

// hasLabel selects objects that have a label.
func hasLabel(label string) labels.Selector {
	required, err := labels.NewRequirement(label, selection.Exists, nil)
	if err != nil {
		panic(err) // all labels are constants
	}
	return labels.NewSelector().Add(*required)
}

// Authority is the certificate authority of the webhook's certificate.
type Authority interface {
	// Bundle returns the CA bundle for API servers, or nil if the sharder does not manage it.
	Bundle() []byte
	// Notify registers a function that is called when the bundle has changed.
	Notify(changed func())
}

// Sharder is the sharder of one process.
type Sharder struct {
	manager       manager.Manager
	config        *configv1alpha1.SharderConfig
	authority     Authority
	metrics       *metrics.Metrics
	members       *members.Tracker
	rings         *catalog.Catalog
	otherSharders *othersharders.Tracker
	group         *moves.Group
	unassigned    *unassignedQueue
	readiness     *readiness
	clock         clock.WithTicker
	ringQueue     *ringQueue
	namespaces    *namespaces
	// learnMu serializes learn and forget.
	learnMu sync.Mutex
}

// Add adds the sharder to a manager, with a readiness check of its own.
func Add(mgr manager.Manager, config *configv1alpha1.SharderConfig, authority Authority) error {
	s := &Sharder{
		manager: mgr, config: config, authority: authority,
		metrics: metrics.New(ctrlmetrics.Registry),
		rings:   &catalog.Catalog{},
		clock:   clock.RealClock{}, ringQueue: &ringQueue{},
	}
	s.members = members.New(s.clock, func(ring string) {
		s.metrics.Calculated(ring)
		s.ringQueue.add(ring)
	})
	s.members.ResourcesChanged = s.ringQueue.add
	s.otherSharders = othersharders.New(s.clock, s.ringQueue.add)
	s.readiness = &readiness{sharder: s}
	s.namespaces = &namespaces{reader: mgr.GetCache(), selected: map[string]selectedNamespaces{}}
	authority.Notify(s.bundleChanged)
	if err := ctrlmetrics.Registry.Register(&metrics.State{Reader: mgr.GetCache()}); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	client, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("creating a metadata client: %w", err)
	}
	s.group = moves.NewGroup(s.moveOptions(client), s.ringQueue.add)
	s.unassigned = newUnassignedQueue(s.clock, s.group.Mover().AssignUnlabelled)
	if err := errors.Join(s.addControllers(), mgr.Add(s.readiness), mgr.Add(s.group), mgr.Add(s.unassigned),
		mgr.AddReadyzCheck("caches", s.readiness.check)); err != nil {
		return err
	}
	mgr.GetWebhookServer().Register(shardingv1alpha1.WebhookPathPrefix, s.handler())
	return nil
}

func (s *Sharder) moveOptions(client metadata.Interface) moves.Options {
	options := moves.Options{
		Metadata:        client,
		Rings:           s.rings,
		Members:         s.members,
		Holders:         s.holders,
		Selects:         s.namespaces.selects,
		Namespaces:      s.namespaces.list,
		SyncPeriod:      s.config.Controller.Sharder.SyncPeriod.Duration,
		ConcurrentMoves: int(*s.config.Controller.Sharder.ConcurrentMoves),
		Clock:           s.clock,
	}
	s.metrics.Measure(&options)
	return options
}

// holders reads from the API server which shards of a ring hold their Leases. It waits for the initial list of
// Leases, because only then is it known which shards are cordoned.
func (s *Sharder) holders(ctx context.Context, ring string) (map[string]bool, error) {
	if !s.readiness.leases.HasSynced() && !toolscache.WaitForCacheSync(ctx.Done(), s.readiness.leases.HasSynced) {
		return nil, ctx.Err()
	}
	found := &coordinationv1.LeaseList{}
	if err := s.manager.GetAPIReader().List(ctx, found, client.MatchingLabels{shardingv1alpha1.LabelControllerRing: ring}); err != nil {
		return nil, fmt.Errorf("listing leases: %w", err)
	}
	return s.members.Holders(ring, found.Items), nil
}

// learn resolves a ring and stores it for the webhook and the mover. It reads the ring from the cache again:
// several controllers call it, and an older version must not replace a newer one or restore a deleted ring.
func (s *Sharder) learn(ctx context.Context, observed *shardingv1alpha1.ControllerRing) (*catalog.Ring, error) {
	s.learnMu.Lock()
	defer s.learnMu.Unlock()
	declared := &shardingv1alpha1.ControllerRing{}
	if err := s.manager.GetCache().Get(ctx, client.ObjectKeyFromObject(observed), declared); err != nil {
		return nil, err
	}
	if declared.DeletionTimestamp != nil {
		return nil, fmt.Errorf("ring %q is being deleted", declared.Name)
	}
	s.members.Declare(declared.Name, declared.AcceptedNamespaces(), declared.Status.ShardNamespaces...)
	known, err := catalog.Resolve(declared, s.manager.GetRESTMapper(), s.config.Webhook.Config.NamespaceSelector)
	if known != nil {
		s.rings.Set(known)
	}
	return known, err
}

// forget removes a ring, unless the cache has a new one of that name.
func (s *Sharder) forget(ctx context.Context, ring string) {
	s.learnMu.Lock()
	defer s.learnMu.Unlock()
	declared := &shardingv1alpha1.ControllerRing{}
	if err := s.manager.GetCache().Get(ctx, client.ObjectKey{Name: ring}, declared); err == nil && declared.DeletionTimestamp == nil {
		return
	}
	s.rings.Delete(ring)
	s.namespaces.forget(ring)
	s.members.Drop(ring)
	s.metrics.Forget(ring)
}

func (s *Sharder) handler() http.Handler {
	return &admission.Handler{
		Rings:   s.rings,
		Members: s.members,
		Locate: func(ctx context.Context, ring string, owner catalog.MainObject) (string, error) {
			declared := s.rings.Get(ring)
			if declared == nil {
				return "", fmt.Errorf("ring %q not found", ring)
			}
			return s.group.Mover().Locate(ctx, declared, owner)
		},
		OnResult: func(ring string, resource schema.GroupResource, result admission.Result, took time.Duration) {
			shown := ring
			if s.rings.Get(ring) == nil {
				// Any client of the webhook can invent names, and each would stay a metric forever.
				shown = ""
			}
			s.metrics.Admission(shown, string(result), took)
			if result == admission.Assigned {
				s.metrics.Assigned(ring, resource)
			}
		},
		OnUnassigned: s.unassigned.add,
		Since:        s.members.Since,
		Now:          s.clock.Now,
	}
}

// bundleChanged enqueues all rings, to write the new CA bundle into their webhook configurations.
func (s *Sharder) bundleChanged() {
	for _, name := range s.rings.Names() {
		s.ringQueue.add(name)
	}
}
