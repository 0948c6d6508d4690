package kubeversion

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// requestTimeout is the timeout of a request, which delays the start if the API server hangs.
	requestTimeout = 5 * time.Second
	// minRetryDelay and maxRetryDelay bound the exponential backoff after requests without an answer.
	minRetryDelay, maxRetryDelay = time.Second, time.Minute
)

// VersionFunc requests the version of an API server.
type VersionFunc func(context.Context) (*apiversion.Info, error)

// ServerVersion requests the version of the API server of a config, without a client-side rate limit.
// The default role system:public-info-viewer allows everyone to read the version.
func ServerVersion(config *rest.Config) VersionFunc {
	return func(ctx context.Context) (*apiversion.Info, error) {
		config := rest.CopyConfig(config)
		config.QPS, config.RateLimiter, config.Timeout = -1, nil, requestTimeout
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return nil, err
		}
		return client.ServerVersionWithContext(ctx)
	}
}

// Guard calls start unless the API server is too old. An API server that does not answer delays start
// for at most a few seconds. Guard then retries in the background; if the answer is that the API server
// is too old, the context of start ends and Guard returns the *TooOldError.
func Guard(ctx context.Context, request VersionFunc, start func(context.Context) error) error {
	info, err := requestOnce(ctx, request)
	switch {
	case err == nil:
		if err := Check(info); err != nil {
			return err
		}
		return start(ctx)
	case refused(err):
		logUnknown(ctx, err)
		return start(ctx)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if err := checkLater(ctx, request); err != nil {
			stop(err)
		}
	}()
	err = start(ctx)
	if tooOld := (*TooOldError)(nil); errors.As(context.Cause(ctx), &tooOld) {
		return tooOld
	}
	return err
}

// checkLater retries until the API server answers or ctx ends, and checks its version.
func checkLater(ctx context.Context, request VersionFunc) error {
	for delay := minRetryDelay; ; delay = min(2*delay, maxRetryDelay) {
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		info, err := requestOnce(ctx, request)
		if err == nil {
			return Check(info)
		}
		if refused(err) {
			logUnknown(ctx, err)
			return nil
		}
	}
}

func requestOnce(ctx context.Context, request VersionFunc) (*apiversion.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return request(ctx)
}

// refused reports whether the API server refused to return its version. A retry would not change that.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

func logUnknown(ctx context.Context, err error) {
	logf.FromContext(ctx).Info("Failed to read the version of the API server, assuming that it is supported", "minimum", Minimum, "error", err.Error())
}
