package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

type reconciler struct {
	client.Client
	agent   agentOf
	events  events.EventRecorder
	options Options
	// news are the EtcdClusters about which another operator has said something.
	news chan event.TypedGenericEvent[*etcdclusterv1alpha1.EtcdCluster]
	// ctx ends with the operator.
	ctx context.Context

	mu    sync.Mutex
	parts map[types.NamespacedName]*part
}

// Reconcile is a round.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cluster := &etcdclusterv1alpha1.EtcdCluster{}
	if err := r.Get(ctx, request.NamespacedName, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, r.forget(ctx, request.NamespacedName)
		}
		return reconcile.Result{}, err
	}
	before := cluster.DeepCopy()
	round := &round{agent: r.agent, cluster: cluster, note: teller(ctx, r.events, cluster)}
	err := r.meet(ctx, round)
	tellNews(&before.Status, &cluster.Status, round.note)
	err = errors.Join(err, r.write(ctx, before, cluster))
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: cmp.Or(round.again, later)}, nil
}

// meet lets a round take place, and says in the status what came of it. One of two EtcdClusters that are both the region's
// part of one system is left alone: they would take each other's members for their own.
func (r *reconciler) meet(ctx context.Context, round *round) error {
	elder, err := r.elder(ctx, round.cluster)
	if err != nil {
		return err
	}
	if elder != "" {
		round.reportTaken(elder)
		return nil
	}
	round.part = r.part(client.ObjectKeyFromObject(round.cluster))
	err = r.run(ctx, round)
	round.report(err)
	return err
}

// elder is the name of another EtcdCluster of the namespace that is a part of the same system, and was there before.
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

// run lets the parts of a round do their work.
func (r *reconciler) run(ctx context.Context, round *round) error {
	if err := round.seeProcesses(ctx); err != nil {
		return errors.Join(err, round.standBack(ctx))
	}
	if err := r.connect(round.part, round.cluster, round.seeds()); err != nil {
		return err
	}
	for _, do := range []func(context.Context) error{
		round.look,                 // at what the operators say, before
		round.updateStatus,         // from what can be seen
		round.prepare,              // what disturbs nobody
		round.operatorCoordination, // tell the others
		round.obey,
		round.carryOn, // with what this operator does for all
		round.exclude,
		round.changeCoordinators,
		round.restart,
		round.remove,
		round.include,
	} {
		if err := do(ctx); err != nil {
			return errors.Join(err, round.failed)
		}
	}
	return round.failed
}

func (r *reconciler) part(of types.NamespacedName) *part {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts[of] == nil {
		r.parts[of] = &part{clock: r.options.Clock}
	}
	return r.parts[of]
}

// follow lets news from the others start a round.
func (r *reconciler) follow(p *part, cluster *etcdclusterv1alpha1.EtcdCluster) error {
	ctx, stop := context.WithCancel(r.ctx)
	p.stop = stop
	changed := p.c.Changed(ctx)
	of := &etcdclusterv1alpha1.EtcdCluster{}
	of.Namespace, of.Name = cluster.Namespace, cluster.Name
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

// forget ends this operator's part in a system whose EtcdCluster was deleted: it leaves the coordination. The members
// stay as they are: data are not thrown away because an object is. It is tried until it succeeds: what it has said would
// keep the others waiting.
func (r *reconciler) forget(ctx context.Context, of types.NamespacedName) error {
	r.mu.Lock()
	p := r.parts[of]
	r.mu.Unlock()
	if p == nil {
		return nil
	}
	if p.c != nil {
		if err := errors.Join(p.c.Configure(ctx, coordination.Settings{}), p.c.Close(ctx)); err != nil {
			return fmt.Errorf("leaving the coordination: %w", err)
		}
		metrics.Registry.Unregister(p.c.Metrics())
	}
	r.mu.Lock()
	delete(r.parts, of)
	r.mu.Unlock()
	return p.close()
}

// write keeps the status, if it has changed. Nobody else writes it, so that it needs no version: what was seen last is
// right.
func (r *reconciler) write(ctx context.Context, before, after *etcdclusterv1alpha1.EtcdCluster) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	err := client.IgnoreNotFound(r.Status().Patch(ctx, after, client.MergeFrom(before)))
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}
