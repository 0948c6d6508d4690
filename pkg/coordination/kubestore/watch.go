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

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/sightings"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/watching"
)

// Watch implements coordination.Store.
func (s *store) Watch(ctx context.Context, path string) <-chan struct{} {
	return watching.Keep(ctx, s.clock, func(ctx context.Context, signal func()) error {
		return s.follow(ctx, path, signal)
	})
}

// follow watches the ConfigMap, and looks by itself from time to time: at the Leases, which show that somebody's
// session is over, and at the ConfigMap, should a watch lag behind.
func (s *store) follow(ctx context.Context, path string, signal func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher, err := s.open(ctx, cancel)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	signal()
	look := s.clock.NewTimer(sightings.Pause())
	defer look.Stop()
	var known map[string]int64
	for {
		var current *state
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, open := <-watcher.ResultChan():
			if !open {
				return errors.New("the API server has ended the watch")
			}
			current, err = s.stateIn(event)
		case <-look.C():
			if current, err = s.observed(ctx); err == nil {
				look.Reset(sightings.Pause(current.durations()...))
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

// open begins to watch. A request that is not answered in time is given up, as any other.
func (s *store) open(ctx context.Context, giveUp func()) (watch.Interface, error) {
	const minutes = 5 * 60 // as client-go's own watches: a connection is not trusted for ever
	defer time.AfterFunc(s.timeout, giveUp).Stop()
	return s.configMaps.Watch(ctx, metav1.ListOptions{
		FieldSelector:  fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String(),
		TimeoutSeconds: ptr.To[int64](minutes),
	})
}

func (s *store) stateIn(event watch.Event) (*state, error) {
	object, isConfigMap := event.Object.(*corev1.ConfigMap)
	switch {
	case !isConfigMap:
		return nil, apierrors.FromObject(event.Object)
	case event.Type == watch.Deleted:
		return newState(), nil
	}
	return s.decode(object)
}
