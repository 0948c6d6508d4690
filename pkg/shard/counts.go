package shard

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// objectCounts return the number of objects that this shard owns, by resource. The events of the caches keep
// the numbers up to date: a list of every cache with each renewal would cost more than the renewal.
type objectCounts map[string]func() int

// countObjects begins to publish the number of objects on the Lease.
func (s *Shard) countObjects(ctx context.Context) error {
	counts := objectCounts{}
	add := func(kind *ownership.Kind, count func() int) error {
		resource, err := s.resource(kind)
		if err != nil {
			return err
		}
		counts[schema.GroupResource{Group: resource.Group, Resource: resource.Resource}.String()] = count
		return nil
	}
	counted := map[schema.GroupKind]bool{} // a kind may be controlled by several main kinds
	for _, main := range s.owned.MainKinds() {
		counted[main.GroupKind()] = true
		if err := add(main, func() int { return s.owned.OwnedObjects(main.GroupKind()) }); err != nil {
			return err
		}
	}
	for _, main := range s.owned.MainKinds() {
		for _, controlled := range main.Controlled {
			if counted[controlled.GroupKind()] {
				continue
			}
			counted[controlled.GroupKind()] = true
			count, err := s.countChildren(ctx, controlled)
			if err != nil {
				return fmt.Errorf("counting objects of the kind %s: %w", controlled.Kind, err)
			}
			if err := add(controlled, count); err != nil {
				return err
			}
		}
	}
	s.published.Store(&counts)
	return nil
}

// countChildren counts the objects of a controlled kind. Ownership counts only main objects.
func (s *Shard) countChildren(ctx context.Context, kind *ownership.Kind) (count func() int, err error) {
	informer, err := s.cache.own.GetInformer(ctx, kind.Watched[0])
	if err != nil {
		return nil, err
	}
	objects := &atomic.Int64{}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { objects.Add(1) },
		DeleteFunc: func(any) { objects.Add(-1) },
	})
	return func() int { return int(objects.Load()) }, err
}

// renewalAnnotations returns the annotations that change between renewals of the Lease.
func (s *Shard) renewalAnnotations() map[string]string {
	return map[string]string{shardingv1alpha1.AnnotationObjects: s.published.Load().String()}
}

// String returns the numbers as JSON, or "" before this shard counts.
func (c *objectCounts) String() string {
	if c == nil {
		return ""
	}
	numbers := make(map[string]int, len(*c))
	for resource, count := range *c {
		numbers[resource] = count()
	}
	text, err := json.Marshal(numbers)
	if err != nil { // which numbers never cause
		return ""
	}
	return string(text)
}
