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
	// requestTimeout limits each request, so that a hung API server does not hold up the start.
	requestTimeout = 5 * time.Second
	// retryFirst and retryMost are the delays between requests that got no answer.
	retryFirst, retryMost = time.Second, time.Minute
)

// Asker asks an API server for its version.
type Asker func(context.Context) (*apiversion.Info, error)

// Ask asks the API server that the config names, without any limit on the client's side. The default
// role system:public-info-viewer allows that to everyone.
func Ask(config *rest.Config) Asker {
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

// Guard calls start, unless the API server is too old. An API server that does not answer holds up start
// for a few seconds at most. It is asked again in the background until it answers, and if it is too old
// then, the context of start ends and Guard returns the *TooOldError.
func Guard(ctx context.Context, ask Asker, start func(context.Context) error) error {
	info, err := askOnce(ctx, ask)
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
		if err := await(ctx, ask); err != nil {
			stop(err)
		}
	}()
	err = start(ctx)
	if tooOld := (*TooOldError)(nil); errors.As(context.Cause(ctx), &tooOld) {
		return tooOld
	}
	return err
}

// await asks until there is an answer or ctx ends, and checks the answer.
func await(ctx context.Context, ask Asker) error {
	for delay := retryFirst; ; delay = min(2*delay, retryMost) {
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		info, err := askOnce(ctx, ask)
		if err == nil {
			return Check(info)
		}
		if refused(err) {
			logUnknown(ctx, err)
			return nil
		}
	}
}

func askOnce(ctx context.Context, ask Asker) (*apiversion.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return ask(ctx)
}

// refused tells whether the API server answered that it does not tell its version to this client. Asking
// again would not change that.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

func logUnknown(ctx context.Context, err error) {
	logf.FromContext(ctx).Info("Could not read the version of the API server", "minimum", Minimum, "reason", err.Error())
}
