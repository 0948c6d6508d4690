// Package operator manages the members that one region has of an etcd cluster, in agreement with the operators of other regions:
// region is the coordination.System that pkg/coordination drives.
//
// It guarantees that one member at a time is disturbed, and only while the system keeps its quorum without it, which is checked
// right before the disturbance and not only when it is planned; that the leader is last, after another member has taken the lead; and
// that a region which was a part of a system never starts another one.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const (
	// retryAfter is the delay after a failure, and resync the period in which members are observed: they can die without a signal.
	retryAfter, resync = 200 * time.Millisecond, 2 * time.Second
	// StoreTimeout limits each request to the store: some of them go to a member that hangs.
	StoreTimeout = 3 * time.Second
	// Finalizer keeps an EtcdCluster until its operator has left the coordination. Otherwise the others would wait for it.
	Finalizer = "etcdcluster.timebertt.dev/coordination"
)

// Options are those of the operator of one region.
type Options struct {
	Namespace string        // namespace of the region: EtcdClusters of other namespaces are ignored
	Name      string        // of the operator, by default the namespace
	Agent     string        // URL of the region's agent
	Session   time.Duration // how long this operator counts as alive after it has died
	Store     kv.Store      // the shared store, by default the managed system itself
	Manager   ctrl.Options
	// Dial reaches the members at a host and a port. Clock and Dial have defaults.
	Dial  func(ctx context.Context, address string) (net.Conn, error)
	Clock clock.Clock
}

type reconciler struct {
	client.Client
	agent        *agent.Client
	events       events.EventRecorder
	options      Options
	ctx          context.Context // of the operator
	participants map[types.NamespacedName]*participant
	// queue takes the EtcdClusters whose coordination another operator has changed.
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
}

// participant has the connections for an EtcdCluster. They are created as soon as an address of the system is known.
type participant struct {
	system      systemClient
	store       kv.Store
	coordinator *coordination.Coordinator
	stop        context.CancelFunc
}

// systemClient is the interface of system.System.
type systemClient interface {
	clientv3.Cluster
	State(ctx context.Context, seeds ...string) (*system.State, error)
	MoveLeader(ctx context.Context, leader, to uint64) error
	Close() error
}

// Run manages the EtcdClusters of a namespace until the context ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	scheme := runtime.NewScheme()
	o.Manager.Scheme, o.Manager.Cache.DefaultNamespaces = scheme, map[string]cache.Config{o.Namespace: {}}
	agent, err := agent.NewClient(o.Agent)
	mgr, mgrErr := ctrl.NewManager(config, o.Manager)
	if err := errors.Join(err, mgrErr, etcdclusterv1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	r := &reconciler{
		Client: mgr.GetClient(), agent: agent, events: mgr.GetEventRecorder("etcdcluster"), options: o, ctx: ctx,
		participants: map[types.NamespacedName]*participant{},
	}
	err = errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), ctrl.NewControllerManagedBy(mgr).
		For(&etcdclusterv1alpha1.EtcdCluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			r.queue = queue
			return nil
		})).
		WithOptions(controller.Options{ // no signal tells when an agent or a member is back
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](retryAfter/4, resync),
		}).
		Complete(r))
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	defer func() {
		for _, p := range r.participants {
			p.close(context.WithoutCancel(ctx))
		}
	}()
	return mgr.Start(ctx)
}

// Reconcile reconciles an EtcdCluster.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster := &etcdclusterv1alpha1.EtcdCluster{}
	if err := r.Get(ctx, request.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.leave(ctx, cluster)
	}
	elder, err := r.elder(ctx, cluster)
	if err == nil && elder == "" {
		err = r.patchFinalizer(ctx, cluster, controllerutil.AddFinalizer)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	before, result := cluster.DeepCopy(), &coordination.Result{Again: resync}
	region := &region{agent: r.agent, cluster: cluster, note: recorder(ctx, r.events, cluster)}
	if elder != "" {
		region.set(condition(etcdclusterv1alpha1.ConditionReady, false, etcdclusterv1alpha1.ReasonSystemTaken,
			"The older EtcdCluster %s already manages the members of this region in the system %s: delete one of the two.", elder, cluster.SystemName()))
	} else {
		result, err = r.coordinate(ctx, region)
		region.report(result, err)
	}
	if !equality.Semantic.DeepEqual(before.Status, cluster.Status) { // nobody else writes it, so that it needs no precondition
		err = errors.Join(err, client.IgnoreNotFound(r.Status().Patch(ctx, cluster, client.MergeFrom(before))))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: min(result.Again, resync)}, nil
}

// coordinate has the region take part. Before there is a system, it is only prepared.
func (r *reconciler) coordinate(ctx context.Context, region *region) (result *coordination.Result, err error) {
	result = &coordination.Result{Again: retryAfter, View: &coordination.View{}}
	region.participant, err = r.participant(region.cluster)
	if err == nil && region.coordinator != nil {
		result, err = region.coordinator.Reconcile(ctx, region.settings(), region)
		region.met = region.view != nil
		for _, event := range result.Events {
			region.note(event.Warning(), event.Reason, event.Message)
		}
	}
	if region.view == nil {
		err = errors.Join(err, region.observe(ctx, result.View))
	}
	return result, errors.Join(err, region.prepareErr)
}

// elder returns the name of an older EtcdCluster of the namespace for the same system: two would manage the same members.
func (r *reconciler) elder(ctx context.Context, cluster *etcdclusterv1alpha1.EtcdCluster) (string, error) {
	all := &etcdclusterv1alpha1.EtcdClusterList{}
	err := r.List(ctx, all, client.InNamespace(cluster.Namespace))
	for i := range all.Items {
		other := &all.Items[i]
		age := cmp.Or(other.CreationTimestamp.Compare(cluster.CreationTimestamp.Time), strings.Compare(other.Name, cluster.Name))
		if other.SystemName() == cluster.SystemName() && age < 0 {
			return other.Name, nil
		}
	}
	return "", err
}

func (r *reconciler) patchFinalizer(
	ctx context.Context, cluster *etcdclusterv1alpha1.EtcdCluster, change func(client.Object, string) bool,
) error {
	before := cluster.DeepCopy()
	if !change(cluster, Finalizer) {
		return nil
	}
	return client.IgnoreNotFound(r.Patch(ctx, cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// participant returns the connections for an EtcdCluster. They are empty before an address of the system is known.
func (r *reconciler) participant(cluster *etcdclusterv1alpha1.EtcdCluster) (*participant, error) {
	key, seeds := client.ObjectKeyFromObject(cluster), cluster.Addresses()
	if p := r.participants[key]; p != nil || len(seeds) == 0 {
		return cmp.Or(p, &participant{}), nil
	}
	var options []grpc.DialOption
	if r.options.Dial != nil {
		options = append(options, grpc.WithContextDialer(r.options.Dial))
	}
	connection, err := system.Dial(seeds, options...)
	if err != nil {
		return &participant{}, err
	}
	connection.Cluster, _ = strconv.ParseUint(cluster.Status.ClusterID, 16, 64) // 0 if it is not known
	p := &participant{system: connection, store: r.options.Store}
	if p.store == nil {
		p.store = etcdstore.New(connection.Client, etcdstore.Options{Timeout: StoreTimeout})
	}
	p.coordinator, err = coordination.New(coordination.Options{
		Store: p.store, System: cluster.SystemName(), Name: cmp.Or(r.options.Name, r.options.Namespace), Session: r.options.Session,
		Actions: actions, Clock: r.options.Clock,
	})
	if err != nil {
		return &participant{}, err
	}
	ctx, stop := context.WithCancel(r.ctx)
	p.stop, r.participants[key] = stop, p
	changed := p.coordinator.Changed(ctx)
	go func() {
		for range changed {
			r.queue.Add(ctrl.Request{NamespacedName: key})
		}
	}()
	return p, metrics.Registry.Register(p.coordinator.Metrics())
}

// close ends the session and the lock of the participant, so that the others need not wait until its session expires.
func (p *participant) close(ctx context.Context) {
	if p.coordinator == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	_ = p.coordinator.Close(ctx) // its session ends by itself too
	p.stop()
	metrics.Registry.Unregister(p.coordinator.Metrics())
	_ = p.system.Close()
}

// leave removes the entries of a region, also if its EtcdCluster was deleted while no operator ran. The members keep running with
// their data.
func (r *reconciler) leave(ctx context.Context, cluster *etcdclusterv1alpha1.EtcdCluster) (err error) {
	if !controllerutil.ContainsFinalizer(cluster, Finalizer) {
		return nil
	}
	region := &region{agent: r.agent, cluster: cluster, view: &coordination.View{}}
	if region.participant, err = r.participant(cluster); err != nil {
		return err
	}
	switch {
	case region.coordinator == nil && cluster.Status.ClusterID != "":
		return errors.New("leaving the coordination: no address of the system is known; if the system is permanently gone, remove the finalizer")
	case region.coordinator != nil:
		// An order that was accepted is carried out first.
		_ = region.listProcesses(ctx)
		region.state, region.stateErr = region.system.State(ctx, cluster.Addresses()...)
		if err := region.coordinator.Leave(ctx, region); err != nil {
			return fmt.Errorf("leaving the coordination: %w", err)
		}
	}
	delete(r.participants, client.ObjectKeyFromObject(cluster))
	region.close(ctx)
	return r.patchFinalizer(ctx, cluster, controllerutil.RemoveFinalizer)
}
