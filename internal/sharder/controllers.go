package sharder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/leases"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
	"github.com/ringmaster-project/ringmaster/internal/sharder/othersharders"
	"github.com/ringmaster-project/ringmaster/internal/sharder/rings"
)

// ringQueue enqueues rings for the ring controller. It drops them on a replica that does not lead, where that
// controller does not run: it reconciles all rings when it starts.
type ringQueue struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// start is the source of the ring controller, which provides the queue.
func (q *ringQueue) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = queue
	return nil
}

// add enqueues a ring. It never blocks.
func (q *ringQueue) add(ring string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queue != nil {
		q.queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: ring}})
	}
}

func (s *Sharder) addControllers() error {
	return errors.Join(s.addInformers(), s.addOtherSharders(), s.addCatalog(), s.addRings(), s.addLeases())
}

// addInformers starts informers on every replica, also on those that do not lead: each serves the webhook,
// and the next leader must know when it last observed a renewal of each shard.
func (s *Sharder) addInformers() error {
	informer, err := s.informer(&coordinationv1.Lease{})
	if err != nil {
		return err
	}
	if s.readiness.leases, err = leases.Follow(informer, s.members); err != nil {
		return err
	}
	// The mover looks namespaces up while it moves objects. Informers that start now have synced when a
	// replica starts to lead.
	informer, err = s.informer(newNamespace())
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(s.namespaceHandler()); err != nil {
		return err
	}
	for _, watched := range []client.Object{
		&shardingv1alpha1.ControllerRing{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
	} {
		if _, err := s.informer(watched); err != nil {
			return err
		}
	}
	return nil
}

// addOtherSharders makes every replica track in-process sharders. Their Leases need a cache of their own,
// because the manager's has only those of shards.
func (s *Sharder) addOtherSharders() error {
	sharderLeases, err := cache.New(s.manager.GetConfig(), cache.Options{
		HTTPClient: s.manager.GetHTTPClient(), Scheme: s.manager.GetScheme(), Mapper: s.manager.GetRESTMapper(),
		DefaultLabelSelector: hasLabel(shardingv1alpha1.LabelSharder), DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return err
	}
	informer, err := sharderLeases.GetInformer(context.Background(), &coordinationv1.Lease{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = leases.Follow(informer, s.otherSharders)
	return errors.Join(err, s.manager.Add(leases.Cache{Cache: sharderLeases}))
}

func (s *Sharder) informer(watched client.Object) (cache.Informer, error) {
	informer, err := s.manager.GetCache().GetInformer(context.Background(), watched, cache.BlockUntilSynced(false))
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("the API server does not serve a kind that the sharder needs (install config/crds first): %w", err)
	}
	return informer, err
}

// addCatalog makes every replica learn the rings, for the webhook.
func (s *Sharder) addCatalog() error {
	const retryUnknownResourceAfter = 5 * time.Second
	needLeaderElection := false
	return ctrl.NewControllerManagedBy(s.manager).
		Named("catalog").
		For(&shardingv1alpha1.ControllerRing{}).
		WithOptions(controller.Options{NeedLeaderElection: &needLeaderElection}).
		Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			ring := &shardingv1alpha1.ControllerRing{}
			err := s.manager.GetClient().Get(ctx, request.NamespacedName, ring)
			switch {
			case apierrors.IsNotFound(err) || err == nil && ring.DeletionTimestamp != nil:
				s.forget(ctx, request.Name)
				return reconcile.Result{}, nil
			case err != nil:
				return reconcile.Result{}, err
			}
			_, err = s.learn(ctx, ring)
			if _, unknown := errors.AsType[*catalog.UnknownResourceError](err); unknown {
				return reconcile.Result{RequeueAfter: retryUnknownResourceAfter}, nil // the ring controller reports it
			}
			return reconcile.Result{}, err
		}))
}

func (s *Sharder) addRings() error {
	return ctrl.NewControllerManagedBy(s.manager).
		Named("controllerring").
		For(&shardingv1alpha1.ControllerRing{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&admissionregistrationv1.MutatingWebhookConfiguration{}).
		Watches(&shardingv1alpha1.ControllerRing{}, handler.EnqueueRequestsFromMapFunc(s.ringsSharing), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(ringOf), builder.WithPredicates(membershipChanged())).
		WatchesRawSource(source.Func(s.ringQueue.start)).
		Complete(&rings.Reconciler{
			Client:         s.manager.GetClient(),
			Reader:         s.manager.GetAPIReader(),
			Learn:          s.learn,
			Shards:         s.members.Shards,
			Namespaces:     s.members.Namespaces,
			OtherSharder:   s.otherSharder,
			ForeignSharder: s.foreignSharder,
			Movers:         s.group,
			Events:         s.manager.GetEventRecorder("controllerring-controller"),
			Clock:          s.clock,
			Config:         s.config.Webhook.Config,
			Authority:      s.authority.Bundle,
		})
}

func (s *Sharder) addLeases() error {
	return ctrl.NewControllerManagedBy(s.manager).
		Named("shardlease").
		For(&coordinationv1.Lease{}, builder.WithPredicates(leases.IgnoreRenewals())).
		Watches(&shardingv1alpha1.ControllerRing{}, handler.EnqueueRequestsFromMapFunc(s.leasesOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&leases.Reconciler{
			Client:             s.manager.GetClient(),
			Shards:             s.members,
			Ring:               s.declared,
			OtherSharderActive: func(ring string) bool { return s.otherSharder(ring) != nil },
			Events:             s.manager.GetEventRecorder("shardlease-controller"),
			Clock:              s.clock,
			Transition:         s.metrics.Transition,
		})
}

// otherSharder returns the active in-process sharder of a ring, or nil.
func (s *Sharder) otherSharder(ring string) *othersharders.Sharder {
	return s.otherSharders.Active(ring, s.accepts(ring))
}

// foreignSharder returns an active in-process sharder in a namespace from which the ring accepts no shards, or nil.
func (s *Sharder) foreignSharder(ring string) *othersharders.Sharder {
	accepts := s.accepts(ring)
	return s.otherSharders.Active(ring, func(namespace string) bool { return !accepts(namespace) })
}

// accepts returns a function that reports whether the members of a ring may be in a namespace.
func (s *Sharder) accepts(ring string) func(namespace string) bool {
	accepted := s.members.Namespaces(ring)
	return func(namespace string) bool {
		return len(accepted) == 0 || slices.Contains(accepted, members.AllNamespaces) || slices.Contains(accepted, namespace)
	}
}

// declared returns a ring, or nil if it does not exist or is being deleted.
func (s *Sharder) declared(ctx context.Context, name string) (*shardingv1alpha1.ControllerRing, error) {
	ring := &shardingv1alpha1.ControllerRing{}
	err := s.manager.GetClient().Get(ctx, client.ObjectKey{Name: name}, ring)
	if apierrors.IsNotFound(err) || err == nil && ring.DeletionTimestamp != nil {
		return nil, nil
	}
	return ring, err
}

// ringsSharing returns the other rings with the same main resource: their conditions name the ring.
func (s *Sharder) ringsSharing(ctx context.Context, changed client.Object) []reconcile.Request {
	list := &shardingv1alpha1.ControllerRingList{}
	if err := s.manager.GetClient().List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // a read of a synced cache does not fail
	}
	ring, ok := changed.(*shardingv1alpha1.ControllerRing)
	var requests []reconcile.Request
	for i := range list.Items {
		if other := &list.Items[i]; ok && other.Name != ring.Name && rings.ShareMain(ring, other) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(other)})
		}
	}
	return requests
}

func ringOf(_ context.Context, lease client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: lease.GetLabels()[shardingv1alpha1.LabelControllerRing]}}}
}

func (s *Sharder) leasesOf(ctx context.Context, ring client.Object) []reconcile.Request {
	list := &coordinationv1.LeaseList{}
	if err := s.manager.GetClient().List(ctx, list, client.MatchingLabels{shardingv1alpha1.LabelControllerRing: ring.GetName()}); err != nil {
		return nil // a read of a synced cache does not fail
	}
	requests := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return requests
}

// membershipChanged drops updates that only renew a Lease: each shard sends one every two seconds.
func membershipChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, was := update.ObjectOld.(*coordinationv1.Lease)
		after, ok := update.ObjectNew.(*coordinationv1.Lease)
		return was && ok && (holder(before) != holder(after) ||
			before.Labels[shardingv1alpha1.LabelState] != after.Labels[shardingv1alpha1.LabelState] ||
			before.Labels[shardingv1alpha1.LabelControllerRing] != after.Labels[shardingv1alpha1.LabelControllerRing])
	}}
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
