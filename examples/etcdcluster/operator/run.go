package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// Options are those of the operator of one region.
type Options struct {
	// Namespace is the region's: other EtcdClusters are ignored. Name is that of this operator, the namespace's by default.
	Namespace, Name string
	// Agent is the URL of the region's agent.
	Agent string
	// Store is where the operators meet: by default etcd, at StoreEndpoints, or else the managed system itself.
	Store          kv.Store
	StoreEndpoints []string
	// Dial reaches the members, at a host and a port. It is the net package's own by default.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Session is how long this operator lives for the others after its last sign.
	Session time.Duration
	Manager manager.Options
	// Clock is the process's own by default.
	Clock clock.Clock
}

// dialing is how connections to the members are made.
func (o *Options) dialing() []grpc.DialOption {
	if o.Dial == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithContextDialer(o.Dial)}
}

// Run manages the EtcdClusters of a namespace until the context ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	if o.Namespace == "" {
		return errors.New("there is no namespace: an operator is that of one region")
	}
	if o.Name == "" {
		o.Name = o.Namespace
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	processes, err := agent.NewClient(o.Agent)
	if err != nil {
		return err
	}
	o.Manager.Scheme = runtime.NewScheme()
	if err := etcdclusterv1alpha1.AddToScheme(o.Manager.Scheme); err != nil {
		return err
	}
	o.Manager.Cache = cache.Options{DefaultNamespaces: map[string]cache.Config{o.Namespace: {}}}
	mgr, err := manager.New(config, o.Manager)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	r := &reconciler{
		Client: mgr.GetClient(), agent: processes, events: mgr.GetEventRecorder("etcdcluster"), options: o, ctx: ctx,
		news:  make(chan event.TypedGenericEvent[*etcdclusterv1alpha1.EtcdCluster]),
		parts: map[types.NamespacedName]*part{},
	}
	err = errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), builder.ControllerManagedBy(mgr).
		For(&etcdclusterv1alpha1.EtcdCluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.news, &handler.TypedEnqueueRequestForObject[*etcdclusterv1alpha1.EtcdCluster]{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			// Nobody tells when an agent, or a member, is back.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryAfter/4, resync),
		}).
		Complete(r))
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	defer func() { // what this operator holds goes at once, so that the others need not wait until it is missed
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		for _, p := range r.parts {
			if p.c != nil {
				_ = p.c.Close(ctx) // it ends by itself too
			}
			p.close()
		}
	}()
	return mgr.Start(ctx)
}
