package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

// Watch watches Websites, and the Leases of a namespace, until ctx is done. It survives restarts of the API server. It returns when
// the initial lists have been observed.
func (g *Generator) Watch(ctx context.Context, leaseNamespace string) error {
	g.tracker.unlabelled = g.Ring == ""
	err := g.watch(ctx, &webhostingv1alpha1.Website{}, func() client.ObjectList { return &webhostingv1alpha1.WebsiteList{} }, g.observeWebsite)
	if err != nil || g.Ring == "" {
		return err
	}
	return g.watch(ctx, &coordinationv1.Lease{}, func() client.ObjectList { return &coordinationv1.LeaseList{} }, g.observeLease,
		client.InNamespace(leaseNamespace), client.MatchingLabels{shardingv1alpha1.LabelControllerRing: g.Ring})
}

// watch calls observe for all objects of a kind, and for each of their changes.
func (g *Generator) watch(ctx context.Context, kind client.Object, newList func() client.ObjectList, observe func(object any, deleted bool), options ...client.ListOption) error {
	if err := g.Client.List(ctx, newList(), append(options, client.Limit(1))...); err != nil {
		return fmt.Errorf("listing %T: %w", kind, err)
	}
	with := func(raw metav1.ListOptions) []client.ListOption {
		return append(slices.Clip(options), &client.ListOptions{Raw: &raw})
	}
	quiet := klog.Logger{} // restarts of the API server are part of the experiment
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		Logger: &quiet, ObjectType: kind,
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
				list := newList()
				return list, g.Client.List(ctx, list, with(raw)...)
			},
			WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
				return g.Client.Watch(ctx, newList(), with(raw)...)
			},
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { observe(object, false) },
			UpdateFunc: func(_, object any) { observe(object, false) },
			DeleteFunc: func(object any) {
				if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = last.Obj
				}
				observe(object, true)
			},
		},
	})
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("listing %T: %w", kind, errors.Join(errors.New("the cache did not sync"), context.Cause(ctx)))
	}
	return nil
}

func (g *Generator) observeWebsite(object any, deleted bool) {
	website, ok := object.(*webhostingv1alpha1.Website)
	switch {
	case !ok:
	case deleted:
		g.tracker.observeDeletion(client.ObjectKeyFromObject(website))
	default:
		owner, drain := website.Labels[shardingv1alpha1.LabelShard(g.Ring)], website.Labels[shardingv1alpha1.LabelDrain(g.Ring)]
		g.tracker.observe(website, owner, owner+"/"+drain, time.Now())
	}
}

func (g *Generator) observeLease(object any, deleted bool) {
	if lease, ok := object.(*coordinationv1.Lease); ok {
		holder := lease.Spec.HolderIdentity
		g.tracker.observeLease(lease.Name, !deleted && holder != nil && *holder == lease.Name)
	}
}
