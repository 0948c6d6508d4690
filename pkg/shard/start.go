package shard

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// checkStart returns an error if this process must not join its ring or be elected. It runs once: in
// Manager.Start or, if the user starts another manager, with the manager's runnables.
func (s *Shard) checkStart(ctx context.Context) error {
	s.checks.Do(func() {
		// Discovery ignores contexts, so it must not delay the stop of this process.
		checked := make(chan error, 1)
		go func() { checked <- s.check(ctx) }()
		select {
		case s.refusal = <-checked:
		case <-ctx.Done():
		}
	})
	return s.refusal
}

func (s *Shard) check(ctx context.Context) error {
	if err := s.resolveWatched(); err != nil || !s.options.Mode.sharded() {
		return err
	}
	if err := s.checkNamespaces(ctx); err != nil {
		return err
	}
	return s.checkPermissions(ctx)
}

// prepare runs before the shard joins the ring: a shard must not be assigned objects that it cannot
// read or release.
func (s *Shard) prepare(ctx context.Context) error {
	if err := s.checkStart(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := s.checkKinds(); err != nil {
		return err
	}
	if err := s.waitForCaches(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return s.annotateLease(ctx)
}

// checkKinds returns an error if a kind is For in one controller and Owns in another, and this process can
// be elected the sharder.
func (s *Shard) checkKinds() error {
	if kind := s.owned.Conflict(); kind != "" && s.options.Mode.canBeSharder() {
		return fmt.Errorf("the kind %s is the main kind of one controller and a controlled kind of another: "+
			"an in-process sharder does not know whether its objects move with their controllers, so shard it in one of the two only", kind)
	}
	return nil
}

// annotateLease sets the annotations of the Lease that list the resources and namespaces of this shard, and its pod.
func (s *Shard) annotateLease(ctx context.Context) error {
	resources, err := s.resources()
	if err != nil {
		return err
	}
	described, err := json.Marshal(resources)
	if err != nil {
		return err
	}
	s.lease.Annotations = map[string]string{
		shardingv1alpha1.AnnotationResources: string(described), shardingv1alpha1.AnnotationNamespaceSelector: "",
		shardingv1alpha1.AnnotationPod: s.boundPod(ctx),
	}
	if selector := s.options.NamespaceSelector; selector != nil {
		if described, err = json.Marshal(selector); err != nil {
			return err
		}
		s.lease.Annotations[shardingv1alpha1.AnnotationNamespaceSelector] = string(described)
	}
	return nil
}

// cacheSyncTimeout is how long the first lists may take, as in controller-runtime.
const cacheSyncTimeout = 2 * time.Minute

// waitForCaches waits for the first lists. It adds the index after the cache has started: before that,
// adding it would block forever for a kind that cannot be listed.
func (s *Shard) waitForCaches(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, cacheSyncTimeout)
	defer cancel()
	// A kind may be watched in several forms, each with its own cache.
	type watched struct {
		schema.GroupVersionKind
		form reflect.Type
	}
	indexed := map[watched]bool{}
	for _, owner := range s.owned.MainKinds() {
		for _, kind := range append([]*ownership.Kind{owner}, owner.Controlled...) {
			for _, example := range kind.Watched {
				_, err := s.cache.own.GetInformer(limited, example)
				switch {
				case ctx.Err() != nil:
					return nil // the process is stopping
				case err != nil:
					return fmt.Errorf("listing objects of the kind %s (is this shard allowed to list and watch them?): %w", kind.Kind, err)
				}
			}
		}
		for _, controlled := range owner.Controlled {
			this := watched{controlled.GroupVersionKind, reflect.TypeOf(controlled.Watched[0])}
			if indexed[this] {
				continue
			}
			indexed[this] = true
			if err := s.cache.own.IndexField(ctx, controlled.Watched[0], indexController, indexByController); err != nil {
				return fmt.Errorf("indexing children of the kind %s: %w", controlled.Kind, err)
			}
		}
	}
	return nil
}
