package kubestore

import (
	"context"
	"errors"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/retrywatch"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/staleness"
)

// Watch implements kv.Store.
func (s *store) Watch(ctx context.Context, path string) <-chan struct{} {
	return retrywatch.Run(ctx, s.clock, func(ctx context.Context, signal func()) error {
		return s.watchOnce(ctx, path, signal)
	})
}

// watchOnce watches the ConfigMap. It also reads it periodically, in case the watch lags behind, and ends expired sessions.
func (s *store) watchOnce(ctx context.Context, path string, signal func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher, err := s.openWatch(ctx, cancel)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	signal()
	ticker := s.clock.NewTimer(staleness.Interval())
	defer ticker.Stop()
	var known map[string]int64
	for {
		var current *state
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, open := <-watcher.ResultChan():
			if !open {
				return errors.New("the API server has closed the watch")
			}
			current, err = s.stateOf(event)
		case <-ticker.C():
			if current, err = s.readAndEndExpired(ctx); err == nil {
				ticker.Reset(staleness.Interval(current.durations()...))
			}
		}
		if err != nil {
			return err
		}
		if versions := current.versions(path); known == nil || !maps.Equal(known, versions) {
			known = versions
			signal()
		}
	}
}

// openWatch opens the watch. It calls giveUp after the timeout.
func (s *store) openWatch(ctx context.Context, giveUp func()) (watch.Interface, error) {
	const watchSeconds = 5 * 60 // as in client-go's reflectors
	defer time.AfterFunc(s.timeout, giveUp).Stop()
	return s.configMaps.Watch(ctx, metav1.ListOptions{
		FieldSelector:  fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String(),
		TimeoutSeconds: ptr.To[int64](watchSeconds),
	})
}

func (s *store) stateOf(event watch.Event) (*state, error) {
	object, isConfigMap := event.Object.(*corev1.ConfigMap)
	switch {
	case !isConfigMap:
		return nil, apierrors.FromObject(event.Object)
	case event.Type == watch.Deleted:
		return newState(), nil
	}
	return s.decode(object)
}
