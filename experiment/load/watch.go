package load

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

// Watch looks at Websites, and at the Leases of a namespace, until ctx ends. It returns when it has seen those that are
// there. Failed is told when it cannot go on.
func (u *Users) Watch(ctx context.Context, leases string, failed func(error)) error {
	u.seen.anyOwner = u.Ring == ""
	if err := u.follow(ctx, &webhostingv1alpha1.WebsiteList{}, u.seeWebsite, failed); err != nil || u.Ring == "" {
		return err
	}
	return u.follow(ctx, &coordinationv1.LeaseList{}, u.seeLease, failed, client.InNamespace(leases),
		client.MatchingLabels{shardingv1alpha1.LabelControllerRing: u.Ring})
}

// follow shows what there is of a kind, and all changes after that, also when the API server ends a watch.
func (u *Users) follow(ctx context.Context, list client.ObjectList, see func(watch.EventType, runtime.Object), failed func(error), options ...client.ListOption) error {
	if err := u.Client.List(ctx, list, options...); err != nil {
		return fmt.Errorf("looking at what there is: %w", err)
	}
	if err := meta.EachListItem(list, func(object runtime.Object) error { see(watch.Added, object); return nil }); err != nil {
		return err
	}
	begin := func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
		return u.Client.Watch(ctx, list, append(options, &client.ListOptions{Raw: &raw})...)
	}
	changes, err := toolswatch.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{WatchFuncWithContext: begin})
	if err != nil {
		return fmt.Errorf("watching what there is: %w", err)
	}
	go func() {
		for event := range changes.ResultChan() {
			if event.Type == watch.Error {
				failed(fmt.Errorf("the users see nothing any more: %v", event.Object))
				return
			}
			see(event.Type, event.Object)
		}
	}()
	return nil
}

func (u *Users) seeWebsite(kind watch.EventType, object runtime.Object) {
	website, is := object.(*webhostingv1alpha1.Website)
	switch {
	case !is:
	case kind == watch.Deleted:
		u.seen.gone(client.ObjectKeyFromObject(website))
	default:
		owner, drain := website.Labels[shardingv1alpha1.LabelShard(u.Ring)], website.Labels[shardingv1alpha1.LabelDrain(u.Ring)]
		u.seen.see(website, owner, owner+"/"+drain, time.Now())
	}
}

func (u *Users) seeLease(kind watch.EventType, object runtime.Object) {
	if lease, is := object.(*coordinationv1.Lease); is {
		holder := lease.Spec.HolderIdentity
		u.seen.lives(lease.Name, kind != watch.Deleted && holder != nil && *holder == lease.Name)
	}
}
