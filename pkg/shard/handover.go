package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	if err := s.handOver(ctx, k, asked); err != nil && ctx.Err() == nil {
		logf.FromContext(ctx).Error(err, "handing an object over, trying again", "kind", k.kind.String(), "namespace", k.Namespace, "name", k.Name)
		s.queue.AddRateLimited(k)
		return true
	}
	s.queue.Forget(k)
	return true
}

// destination decides whom an object goes to. Without a shard, the webhook or the sharder decides;
// ok is false if the object stays.
type destination func(k key, labels map[string]string, ring string) (shard string, ok bool)

// asked is the destination of a drain: the one that the label names, if it does.
func asked(_ key, labels map[string]string, ring string) (string, bool) {
	value, draining := labels[shardingv1alpha1.LabelDrain(ring)]
	if value == "true" || value == labels[shardingv1alpha1.LabelShard(ring)] {
		value = "" // of a sharder that does not say
	}
	return value, draining
}

// handOver stops working on an object and gives it to another shard: its children first, so that no
// shard ever has an object without them, and the object itself last.
func (s *Shard) handOver(ctx context.Context, k key, to destination) error {
	known := s.kinds.get(k.kind)
	if known == nil {
		return fmt.Errorf("the kind %s is not sharded", k.kind)
	}
	if err := s.quiet(ctx, k); err != nil {
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
	next, ok := to(k, object.GetLabels(), s.Ring())
	if !ok {
		s.guard.open(k)
		return nil
	}
	if next != "" {
		if err := s.giveChildren(ctx, known, object.GetUID(), next); err != nil {
			return err
		}
	}
	version, err := s.give(ctx, known, object, func(labels map[string]string) (string, bool) { return to(k, labels, s.Ring()) })
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
func (s *Shard) quiet(ctx context.Context, k key) error {
	idle := s.guard.close(k)
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

// giveChildren gives the children of an object to another shard. Those of a kind that this shard may
// not write are left to the sharder, which lets them follow.
func (s *Shard) giveChildren(ctx context.Context, owner *kind, uid types.UID, next string) error {
	for _, known := range owner.controlled {
		var children []client.Object
		if err := s.each(ctx, known, func(child client.Object) error {
			children = append(children, child)
			return nil
		}, client.MatchingFields{indexController: string(uid)}); err != nil {
			return fmt.Errorf("looking for the children: %w", err)
		}
		for _, child := range children {
			_, err := s.give(ctx, known, child, func(map[string]string) (string, bool) { return next, true })
			if apierrors.IsForbidden(err) {
				logf.FromContext(ctx).Info("This shard may not hand children over, so the sharder has to; its role needs patch", "kind", known.Kind, "error", err.Error())
				break
			}
			if err != nil {
				return fmt.Errorf("handing over the %s %s: %w", known.Kind, child.GetName(), err)
			}
		}
	}
	return nil
}

// errStays is returned for an object that need not go any more.
var errStays = errors.New("the object stays")

// give writes whom an object belongs to, on the version that was decided about. It returns a version
// with which the object was not this shard's any more, because of this write or for another reason.
func (s *Shard) give(ctx context.Context, known *kind, object client.Object, to func(labels map[string]string) (string, bool)) (version string, err error) {
	current := &metav1.PartialObjectMetadata{}
	current.SetGroupVersionKind(known.GroupVersionKind)
	current.Namespace, current.Name = object.GetNamespace(), object.GetName()
	current.Labels, current.ResourceVersion, current.UID = object.GetLabels(), object.GetResourceVersion(), object.GetUID()
	for range attempts {
		if current.Labels[shardingv1alpha1.LabelShard(s.Ring())] != s.Name() || current.UID != object.GetUID() {
			return current.ResourceVersion, nil
		}
		next, ok := to(current.Labels)
		if !ok {
			return "", errStays
		}
		content, err := handOverPatch(s.Ring(), current.ResourceVersion, next)
		if err != nil {
			return "", err
		}
		err = s.writer.Patch(ctx, current, client.RawPatch(types.MergePatchType, content), client.FieldOwner(fieldManager))
		switch {
		case err == nil && current.Labels[shardingv1alpha1.LabelShard(s.Ring())] == s.Name():
			return "", errStays // the webhook has chosen this shard again, in that same write
		case err == nil:
			return current.ResourceVersion, nil
		case apierrors.IsNotFound(err):
			return object.GetResourceVersion(), nil
		case !apierrors.IsConflict(err):
			return "", err
		}
		err = s.writer.Get(ctx, client.ObjectKeyFromObject(object), current)
		switch {
		case apierrors.IsNotFound(err):
			return object.GetResourceVersion(), nil
		case err != nil:
			return "", err
		}
	}
	return "", fmt.Errorf("somebody else has written it %d times in a row", attempts)
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
