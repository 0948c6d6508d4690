package watches

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Configure makes all caches that are created with these options, or with copies of them, restore their watches soon
// after an outage. They share the limit on attempts, so a process calls Configure once. A NewInformer that is set
// already is kept and gets a ListerWatcher that retries.
func Configure(options *cache.Options) {
	newInformer := options.NewInformer
	if newInformer == nil {
		newInformer = toolscache.NewSharedIndexInformer
	}
	server := newReachability(clock.RealClock{})
	options.NewInformer = func(
		objects toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		return newInformer(retrying(server, objects), example, resync, indexers)
	}
}

// retrying returns a ListerWatcher whose requests wait for the end of an outage instead of failing.
func retrying(server *reachability, objects toolscache.ListerWatcher) toolscache.ListerWatcher {
	parent := toolscache.ToListerWatcherWithContext(objects)
	retried := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return retry(ctx, server, func() (runtime.Object, error) { return parent.ListWithContext(ctx, options) })
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := retry(ctx, server, func() (watch.Interface, error) { return parent.WatchWithContext(ctx, options) })
			if err == nil || ctx.Err() == nil {
				return w, err
			}
			// The reflector would report the error, or wait before it stops. It ends a watch without events at once.
			return watch.NewFake(), nil
		},
	}
	// A user's NewInformer may rely on the type that controller-runtime passes.
	if plain, is := objects.(*toolscache.ListWatch); is {
		retried.DisableChunking = plain.DisableChunking
		return retried
	}
	// The reflector asks the ListerWatcher whether it can stream lists.
	return toolscache.ToListWatcherWithWatchListSemantics(retried, objects)
}

// retry sends a request until it is answered or ctx ends.
func retry[T any](ctx context.Context, server *reachability, request func() (T, error)) (T, error) {
	for {
		result, err := request()
		if ctx.Err() != nil || !server.observe(ctx, err) {
			return result, err
		}
		if err := server.wait(ctx); err != nil {
			return result, err
		}
	}
}
