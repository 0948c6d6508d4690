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

// Options configure the controller.
type Options struct {
	// Image is the image of nginx.
	Image string
	// Concurrency is the maximum number of concurrent reconciles.
	Concurrency int
	// WorkTime is a delay in each reconcile, which simulates the call of a remote API.
	WorkTime time.Duration
	// Clock provides the time for the status.
	Clock clock.PassiveClock
	// RecheckInterval is how often to check whether a name that another object has is free. Objects
	// of others are not watched, so no event announces it. The default is 30 s.
	RecheckInterval time.Duration
}

const defaultRecheckInterval = 30 * time.Second

// Cached restricts the cache to the objects that this operator has created, of kinds that others
// use too. A cluster has many more ConfigMaps than Websites.
func Cached() map[client.Object]cache.ByObject {
	managedOnly := cache.ByObject{Label: labels.SelectorFromSet(managed)}
	return map[client.Object]cache.ByObject{
		&appsv1.Deployment{}: managedOnly, &corev1.ConfigMap{}: managedOnly, &corev1.Service{}: managedOnly, &networkingv1.Ingress{}: managedOnly,
	}
}

// Add adds the controller to a manager. It reconciles the objects of the shard, or all Websites if
// the manager leads.
func Add(ctx context.Context, mgr *shard.Manager, options Options) error {
	r := &reconciler{
		Client: mgr.GetClient(), live: mgr.GetAPIReader(), events: mgr.GetEventRecorder(manager),
		clock: options.Clock, image: options.Image, workTime: options.WorkTime, recheckInterval: cmp.Or(options.RecheckInterval, defaultRecheckInterval),
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &webhostingv1alpha1.Website{}, indexTheme, themeOf); err != nil {
		return fmt.Errorf("adding the index of Websites by Theme: %w", err)
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

// logs returns the logger of a request, with few and short keys.
func logs(base logr.Logger) func(*reconcile.Request) logr.Logger {
	return func(request *reconcile.Request) logr.Logger {
		if request == nil {
			return base
		}
		return base.WithValues("namespace", request.Namespace, "name", request.Name)
	}
}
