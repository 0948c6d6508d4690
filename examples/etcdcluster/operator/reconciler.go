// Package operator manages the members that one region has of an etcd cluster, together with the operators of the other regions.
// What they need and what is done to them goes through pkg/coordination: region is the coordination.System.
//
// It promises that one member at a time is disturbed, and only while the system keeps its quorum without it, which is looked at
// when it is done and not only when it was decided; that the leader comes last and gives its part away before; and that where there
// was a system no other one is started.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const (
	// retryAfter is when to look again after a failure, and resync when to look although nobody has said anything: members can die
	// without a word.
	retryAfter, resync = 200 * time.Millisecond, 2 * time.Second
	// storeTimeout is how long one request to the store may take. A member that hangs gets its share of them.
	storeTimeout = 3 * time.Second
	// Finalizer keeps an EtcdCluster until its operator has left the coordination: what it has said would keep the others waiting.
	Finalizer = "etcdcluster.timebertt.dev/coordination"
)

type reconciler struct {
	client.Client
	agent   agentOf
	events  events.EventRecorder
	options Options
	// news are the EtcdClusters about which another operator has said something.
	news chan event.TypedGenericEvent[*etcdclusterv1alpha1.EtcdCluster]
	// ctx ends with the operator.
	ctx   context.Context
	parts map[types.NamespacedName]*part
}

// part is what an operator has for one EtcdCluster from one reconcile to the next.
type part struct {
	processes map[string]agent.Member // the region's own, by ID
	system    systemOf
	client    *clientv3.Client // of the store, if that is the system itself
	store     kv.Store
	c         *coordination.Coordinator
	overdue   deadline
	clock     clock.PassiveClock
	stop      func()
}

// Reconcile does what is due for an EtcdCluster. Calls are made one after the other.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cluster := &etcdclusterv1alpha1.EtcdCluster{}
	if err := r.Get(ctx, request.NamespacedName, cluster); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	elder, err := r.elder(ctx, cluster)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, r.leave(ctx, cluster, elder)
	}
	before := cluster.DeepCopy()
	if elder == "" && controllerutil.AddFinalizer(cluster, Finalizer) {
		if err := r.Patch(ctx, cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return reconcile.Result{}, fmt.Errorf("adding the finalizer: %w", err)
		}
		before = cluster.DeepCopy()
	}
	note := recorder(ctx, r.events, cluster)
	result := &coordination.Result{Again: resync}
	if elder != "" {
		reportTaken(cluster, elder)
	} else {
		region := &region{part: r.part(request.NamespacedName), agent: r.agent, cluster: cluster, note: note, view: &coordination.View{}}
		result, err = r.coordinate(ctx, region)
		region.report(result, err)
	}
	noteChanges(&before.Status, &cluster.Status, note)
	if !equality.Semantic.DeepEqual(before.Status, cluster.Status) {
		// Nobody else writes it, so that it needs no version: what was seen last is right.
		if patchErr := client.IgnoreNotFound(r.Status().Patch(ctx, cluster, client.MergeFrom(before))); patchErr != nil {
			err = errors.Join(err, fmt.Errorf("writing the status: %w", patchErr))
		}
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: min(result.Again, resync)}, nil
}

// elder is the name of another EtcdCluster of the namespace that is a part of the same system, and was there before. They would
// take each other's members for their own.
func (r *reconciler) elder(ctx context.Context, cluster *etcdclusterv1alpha1.EtcdCluster) (string, error) {
	all := &etcdclusterv1alpha1.EtcdClusterList{}
	if err := r.List(ctx, all, client.InNamespace(cluster.Namespace)); err != nil {
		return "", fmt.Errorf("looking for others in the namespace: %w", err)
	}
	for i := range all.Items {
		other := &all.Items[i]
		age := cmp.Or(other.CreationTimestamp.Compare(cluster.CreationTimestamp.Time), strings.Compare(other.Name, cluster.Name))
		if other.SystemName() == cluster.SystemName() && age < 0 {
			return other.Name, nil
		}
	}
	return "", nil
}

// coordinate lets the region take part. Before the operators can meet, it is prepared.
func (r *reconciler) coordinate(ctx context.Context, region *region) (result *coordination.Result, err error) {
	result = &coordination.Result{Again: retryAfter, View: region.view}
	if err := r.connect(region.part, region.cluster); err != nil {
		return result, err
	}
	if region.c != nil {
		result, err = region.c.Reconcile(ctx, region.settings(), region)
		region.met = region.observed
		for _, happened := range result.Events {
			region.note(happened.Reason, happened.Message)
		}
	}
	if !region.observed {
		err = errors.Join(err, region.observe(ctx, result.View))
	}
	return result, errors.Join(err, region.failed)
}

// settings are those of the spec.
func (r *region) settings() coordination.Settings {
	spec := &r.cluster.Spec
	settings := coordination.Settings{
		Mode: coordination.Mode(spec.AutomationOptions.Mode()), Prefix: string(spec.ProcessGroupIDPrefix), Generation: r.cluster.Generation,
		Policy: coordination.Policy{
			Quiet: spec.AutomationOptions.Quiet(), Missing: coordination.Missing(spec.AutomationOptions.Missing), After: spec.AutomationOptions.After(),
		},
	}
	for _, name := range spec.AutomationOptions.DenyList {
		settings.Denied = append(settings.Denied, string(name))
	}
	return settings
}

func (r *reconciler) part(of types.NamespacedName) *part {
	if r.parts[of] == nil {
		r.parts[of] = &part{clock: r.options.Clock}
	}
	return r.parts[of]
}

// connect finds the system, and the others. Before there is a system there is nobody to talk to.
func (r *reconciler) connect(p *part, cluster *etcdclusterv1alpha1.EtcdCluster) error {
	var seeds []string
	for _, seed := range slices.Concat(cluster.Spec.Seeds, cluster.Status.Endpoints) {
		seeds = append(seeds, string(seed))
	}
	for process := range maps.Values(p.processes) {
		if process.Phase == agent.Running {
			seeds = append(seeds, process.ClientURL)
		}
	}
	slices.Sort(seeds)
	if seeds = slices.Compact(seeds); len(seeds) == 0 {
		return nil
	}
	if p.system == nil {
		connection, err := system.Dial(seeds, r.options.dialing()...)
		if err != nil {
			return err
		}
		if known := cluster.Status.ClusterID; known != "" {
			id, err := system.ParseID(known)
			if err != nil {
				return fmt.Errorf("understanding status.clusterID: %w", err)
			}
			connection.SetCluster(id)
		}
		p.system = connection
	}
	p.system.SetSeeds(seeds)
	if p.store == nil {
		if err := r.openStore(p); err != nil {
			return err
		}
	}
	if endpoints := p.system.Endpoints(); p.client != nil && len(r.options.StoreEndpoints) == 0 && !slices.Equal(endpoints, p.client.Endpoints()) {
		p.client.SetEndpoints(endpoints...)
	}
	return r.join(p, cluster)
}

func (r *reconciler) openStore(p *part) (err error) {
	if p.store = r.options.Store; p.store != nil {
		return nil
	}
	endpoints := r.options.StoreEndpoints
	if len(endpoints) == 0 {
		endpoints = p.system.Endpoints()
	}
	p.client, err = clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), DialKeepAliveTime: 6 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
		// By default an operator that was cut off for long may wait for two minutes more when it no longer is.
		DialOptions: append(r.options.dialing(), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: retryAfter, Multiplier: 1.6, Jitter: 0.2, MaxDelay: resync},
			MinConnectTimeout: storeTimeout,
		})),
	})
	if err != nil {
		return fmt.Errorf("connecting to the store: %w", err)
	}
	p.store = etcdstore.New(p.client, etcdstore.Options{Timeout: storeTimeout})
	return nil
}

// join makes this operator's part in the coordination, and lets news from the others start a reconcile.
func (r *reconciler) join(p *part, cluster *etcdclusterv1alpha1.EtcdCluster) (err error) {
	if p.c != nil {
		return nil
	}
	p.c, err = coordination.New(coordination.Options{
		Store: p.store, System: cluster.SystemName(), Name: r.options.Name, Session: r.options.Session, Actions: actions, Clock: r.options.Clock,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(r.ctx)
	p.stop = stop
	of := &etcdclusterv1alpha1.EtcdCluster{}
	of.Namespace, of.Name = cluster.Namespace, cluster.Name
	changed := p.c.Changed(ctx)
	go func() {
		for range changed {
			select {
			case r.news <- event.TypedGenericEvent[*etcdclusterv1alpha1.EtcdCluster]{Object: of}:
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := metrics.Registry.Register(p.c.Metrics()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// leave ends this operator's part in a system whose EtcdCluster is deleted, also if it was deleted while no operator was there. The
// members stay as they are: data are not thrown away because an object is.
func (r *reconciler) leave(ctx context.Context, cluster *etcdclusterv1alpha1.EtcdCluster, elder string) error {
	key := client.ObjectKeyFromObject(cluster)
	if !controllerutil.ContainsFinalizer(cluster, Finalizer) {
		return nil
	}
	if elder == "" {
		p := r.part(key)
		_ = p.see(ctx, r.agent, cluster.SystemName()) // the system may be found elsewhere too
		if err := r.connect(p, cluster); err != nil {
			return err
		}
		if p.c == nil && cluster.Status.ClusterID != "" {
			return errors.New("leaving the coordination: nobody says where the system is; if it is gone for good, remove the finalizer")
		}
		if p.c != nil {
			region := &region{part: p, agent: r.agent, cluster: cluster, note: recorder(ctx, r.events, cluster), view: &coordination.View{}}
			region.state, _ = p.system.State(ctx) // for an order that was accepted
			if err := p.c.Leave(ctx, region); err != nil {
				return fmt.Errorf("leaving the coordination: %w", err)
			}
			metrics.Registry.Unregister(p.c.Metrics())
		}
		delete(r.parts, key)
		p.close()
	}
	before := cluster.DeepCopy()
	controllerutil.RemoveFinalizer(cluster, Finalizer)
	if err := client.IgnoreNotFound(r.Patch(ctx, cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))); err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

func (p *part) close() {
	if p.stop != nil {
		p.stop()
	}
	if p.client != nil {
		_ = p.client.Close() // nothing is asked any more
	}
	if p.system != nil {
		_ = p.system.Close()
	}
}
