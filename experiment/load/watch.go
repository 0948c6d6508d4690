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

// Watch looks at Websites, and at the Leases of a namespace, until ctx ends, also when the API server is away meanwhile. It
// returns when it has seen those that are there.
func (u *Users) Watch(ctx context.Context, leases string) error {
	u.seen.anyOwner = u.Ring == ""
	if err := u.follow(ctx, &webhostingv1alpha1.Website{}, func() client.ObjectList { return &webhostingv1alpha1.WebsiteList{} }, u.seeWebsite); err != nil || u.Ring == "" {
		return err
	}
	return u.follow(ctx, &coordinationv1.Lease{}, func() client.ObjectList { return &coordinationv1.LeaseList{} }, u.seeLease, client.InNamespace(leases),
		client.MatchingLabels{shardingv1alpha1.LabelControllerRing: u.Ring})
}

// follow shows what there is of a kind, and all changes after that.
func (u *Users) follow(ctx context.Context, kind client.Object, newList func() client.ObjectList, see func(object any, gone bool), options ...client.ListOption) error {
	if err := u.Client.List(ctx, newList(), append(options, client.Limit(1))...); err != nil {
		return fmt.Errorf("looking at what there is: %w", err)
	}
	with := func(raw metav1.ListOptions) []client.ListOption {
		return append(slices.Clip(options), &client.ListOptions{Raw: &raw})
	}
	quiet := klog.Logger{} // when the API server is away it is known
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		Logger: &quiet, ObjectType: kind,
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
				list := newList()
				return list, u.Client.List(ctx, list, with(raw)...)
			},
			WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
				return u.Client.Watch(ctx, newList(), with(raw)...)
			},
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { see(object, false) },
			UpdateFunc: func(_, object any) { see(object, false) },
			DeleteFunc: func(object any) {
				if last, is := object.(cache.DeletedFinalStateUnknown); is {
					object = last.Obj
				}
				see(object, true)
			},
		},
	})
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.Join(errors.New("looking at what there is"), context.Cause(ctx))
	}
	return nil
}

func (u *Users) seeWebsite(object any, gone bool) {
	website, is := object.(*webhostingv1alpha1.Website)
	switch {
	case !is:
	case gone:
		u.seen.gone(client.ObjectKeyFromObject(website))
	default:
		owner, drain := website.Labels[shardingv1alpha1.LabelShard(u.Ring)], website.Labels[shardingv1alpha1.LabelDrain(u.Ring)]
		u.seen.see(website, owner, owner+"/"+drain, time.Now())
	}
}

func (u *Users) seeLease(object any, gone bool) {
	if lease, is := object.(*coordinationv1.Lease); is {
		holder := lease.Spec.HolderIdentity
		u.seen.lives(lease.Name, !gone && holder != nil && *holder == lease.Name)
	}
}
