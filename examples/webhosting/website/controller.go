package website

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// Options say how Websites are served.
type Options struct {
	// Image is the image of nginx.
	Image string
	// Concurrency is how many Websites are worked on at the same time.
	Concurrency int
	// WorkTime is how long each reconcile waits, as an operator does that has to ask an API far away.
	WorkTime time.Duration
	// Clock tells the time that is written into statuses.
	Clock clock.PassiveClock
	// LookAgain is when to look again whether a name is free that another object has. Nobody may tell: objects
	// of others are not watched. By default it is 30 s.
	LookAgain time.Duration
}

const defaultLookAgain = 30 * time.Second

// Cached is what a manager's cache has to keep of the kinds that others use too: what this operator has
// made. A cluster has many more ConfigMaps than Websites.
func Cached() map[client.Object]cache.ByObject {
	ours := cache.ByObject{Label: labels.SelectorFromSet(managed)}
	return map[client.Object]cache.ByObject{
		&appsv1.Deployment{}: ours, &corev1.ConfigMap{}: ours, &corev1.Service{}: ours, &networkingv1.Ingress{}: ours,
	}
}

// Add lets a manager work on Websites: on its share of them if it is a shard, on all if it leads.
func Add(ctx context.Context, mgr *shard.Manager, options Options) error {
	r := &reconciler{
		Client: mgr.GetClient(), live: mgr.GetAPIReader(), events: mgr.GetEventRecorder(manager),
		clock: options.Clock, image: options.Image, workTime: options.WorkTime, lookAgain: cmp.Or(options.LookAgain, defaultLookAgain),
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &webhostingv1alpha1.Website{}, indexTheme, themeOf); err != nil {
		return fmt.Errorf("preparing to find the Websites of a Theme: %w", err)
	}
	return shard.ControllerManagedBy(mgr).
		For(&webhostingv1alpha1.Website{}, shard.Sharded{}, builder.WithPredicates(websiteChanged)).
		Owns(&corev1.ConfigMap{}, shard.Sharded{}, builder.WithPredicates(configMapChanged)).
		Owns(&appsv1.Deployment{}, shard.Sharded{}, builder.WithPredicates(deploymentChanged)).
		Owns(&corev1.Service{}, shard.Sharded{}, builder.WithPredicates(serviceChanged)).
		Owns(&networkingv1.Ingress{}, shard.Sharded{}, builder.WithPredicates(ingressChanged)).
		// Themes are not sharded: every instance sees all of them.
		Watches(&webhostingv1alpha1.Theme{}, handler.EnqueueRequestsFromMapFunc(r.websitesOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: options.Concurrency}).
		WithLogConstructor(logs(mgr.GetLogger().WithValues("instance", mgr.Shard().Name()))).
		Complete(r)
}

// logs makes the log of a request, with few and short keys.
func logs(base logr.Logger) func(*reconcile.Request) logr.Logger {
	return func(request *reconcile.Request) logr.Logger {
		if request == nil {
			return base
		}
		return base.WithValues("namespace", request.Namespace, "name", request.Name)
	}
}
