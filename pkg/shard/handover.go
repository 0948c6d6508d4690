package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

const (
	// attempts is how often a write is tried on an object that others write too.
	attempts = 5
	// fieldManager is the name under which the API server notes our writes.
	fieldManager = "shard"
)

// answer hands the next object over that is asked for. It returns false when there is nothing more
// to do.
func (s *Shard) answer(ctx context.Context) bool {
	k, shutdown := s.queue.Get()
	if shutdown {
		return false
	}
	defer s.queue.Done(k)
	if err := s.handOver(ctx, k, s.asked); err != nil && !errors.Is(err, errBusy) && ctx.Err() == nil {
		logf.FromContext(ctx).Error(err, "handing an object over, trying again", "kind", k.kind.String(), "namespace", k.Namespace, "name", k.Name)
		s.queue.AddRateLimited(k)
		return true
	}
	s.queue.Forget(k)
	return true
}

// destination decides whom an object goes to. Without a shard, the webhook or the sharder decides;
// ok is false if the object stays.
type destination func(ctx context.Context, k key, labels map[string]string) (shard string, ok bool)

// asked is the destination of a drain: the one that the label names, if that is a shard of the ring. Other
// sharders and people write anything.
func (s *Shard) asked(ctx context.Context, _ key, labels map[string]string) (string, bool) {
	value, draining := labels[shardingv1alpha1.LabelDrain(s.Ring())]
	if !draining || value == "" || value == s.Name() || !s.peers.has(ctx, value) {
		return "", draining
	}
	return value, true
}

// errBusy is returned for an object that somebody else hands over at this moment.
var errBusy = errors.New("the object is being handed over already")

// handOver stops working on an object and gives it to another shard: its children first, so that no
// shard ever has an object without them, and the object itself last.
func (s *Shard) handOver(ctx context.Context, k key, to destination) error {
	known := s.kinds.get(k.kind)
	if known == nil {
		return fmt.Errorf("the kind %s is not sharded", k.kind)
	}
	idle, ok := s.guard.close(k)
	if !ok {
		return errBusy
	}
	defer s.guard.done(k)
	if err := s.quiet(ctx, k, idle); err != nil {
		return err
	}
	object, err := s.get(ctx, known, k.NamespacedName)
	if apierrors.IsNotFound(err) {
		s.guard.open(k)
		return nil
	}
	if err != nil {
		return err
	}
	family, err := s.familyOf(ctx, known, object)
	if err != nil {
		return err
	}
	version, err := s.give(ctx, family, func(labels map[string]string) (string, bool) { return to(ctx, k, labels) })
	switch {
	case errors.Is(err, errStays):
		s.guard.open(k)
		return nil
	case err != nil:
		return err
	}
	s.guard.gave(k, version)
	return s.confirm(ctx, known, k)
}

// quiet waits until nobody works on an object. Who does not end in time is told to.
func (s *Shard) quiet(ctx context.Context, k key, idle <-chan struct{}) error {
	grace := time.NewTimer(s.options.DrainGrace)
	defer grace.Stop()
	for {
		select {
		case <-idle:
			return nil
		case <-grace.C:
			s.guard.interrupt(k)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// confirm opens the guard if the cache has seen already that the object was given away. Otherwise the
// event that is still to come does.
func (s *Shard) confirm(ctx context.Context, known *kind, k key) error {
	object, err := s.get(ctx, known, k.NamespacedName)
	switch {
	case apierrors.IsNotFound(err):
		s.guard.open(k)
		return nil
	case err != nil:
		return err
	}
	s.guard.saw(k, object.GetResourceVersion())
	return nil
}

// handOverPatch gives an object away in one write. Without a next shard both labels go, which makes
// the webhook assign it in that same write.
func handOverPatch(ring, version, next string) ([]byte, error) {
	labels := map[string]any{shardingv1alpha1.LabelShard(ring): nil, shardingv1alpha1.LabelDrain(ring): nil}
	if next != "" {
		labels[shardingv1alpha1.LabelShard(ring)] = next
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version, "labels": labels}})
}
