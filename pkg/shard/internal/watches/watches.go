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

// Configure changes the options of caches, so that their watches resume within seconds after an outage. The
// caches share the rate limit of the retries, so a process should call Configure once. It keeps a
// NewInformer that is already set, which gets a ListerWatcher that retries.
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
			// The reflector would report an error, or delay its stop. A watch without events does neither.
			return watch.NewFake(), nil
		},
	}
	// A user's NewInformer may rely on the type that controller-runtime passes.
	if listWatch, ok := objects.(*toolscache.ListWatch); ok {
		retried.DisableChunking = listWatch.DisableChunking
		return retried
	}
	// The reflector asks the ListerWatcher whether it can stream lists.
	return toolscache.ToListWatcherWithWatchListSemantics(retried, objects)
}

// retry sends a request until the API server answers or ctx ends.
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
