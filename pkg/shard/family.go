package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// family is a main object with its children, as they were seen last.
type family struct {
	owner    *metav1.PartialObjectMetadata
	children []*metav1.PartialObjectMetadata
}

// familyOf looks in the cache. Children that are not there yet are left to the sharder, which lets them
// follow.
func (s *Shard) familyOf(ctx context.Context, known *kind, owner client.Object) (*family, error) {
	found := &family{owner: reduce(known, owner)}
	for _, controlled := range known.controlled {
		if err := s.each(ctx, controlled, func(child client.Object) error {
			if metav1.IsControlledBy(child, owner) {
				found.children = append(found.children, reduce(controlled, child))
			}
			return nil
		}, client.MatchingFields{indexController: drawer(owner.GetUID())}); err != nil {
			return nil, fmt.Errorf("looking for the children: %w", err)
		}
	}
	return found, nil
}

// reduce keeps what is needed to write an object's labels.
func reduce(known *kind, object client.Object) *metav1.PartialObjectMetadata {
	reduced := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), Labels: maps.Clone(object.GetLabels()),
	}}
	reduced.SetGroupVersionKind(known.GroupVersionKind)
	return reduced
}

// errStays is returned for an object that need not go any more.
var errStays = errors.New("the object stays")

// give writes whom a family belongs to, the owner on the very version that was decided about. It returns
// a version with which the owner was not this shard's any more, because of this write or for another
// reason. When others have written the owner meanwhile, it is decided again, also about the children.
func (s *Shard) give(ctx context.Context, f *family, to func(labels map[string]string) (string, bool)) (version string, err error) {
	uid := f.owner.UID
	for range attempts {
		mine := f.owner.Labels[shardingv1alpha1.LabelShard(s.Ring())] == s.Name()
		if !mine {
			return f.owner.ResourceVersion, nil
		}
		next, goes := to(f.owner.Labels)
		if !goes || f.owner.UID != uid { // a new object of that name was not asked for
			s.giveChildren(ctx, f, s.Name())
			return "", errStays
		}
		if next != "" {
			s.giveChildren(ctx, f, next)
		}
		err := s.write(ctx, f.owner, next)
		switch {
		case apierrors.IsNotFound(err):
			return f.owner.ResourceVersion, nil
		case err != nil && !apierrors.IsConflict(err):
			return "", err
		case err == nil && f.owner.Labels[shardingv1alpha1.LabelShard(s.Ring())] == s.Name():
			return "", errStays // the webhook has chosen this shard again, in that same write
		case err == nil:
			return f.owner.ResourceVersion, nil
		}
		before := f.owner.ResourceVersion
		if err := s.writer.Get(ctx, client.ObjectKeyFromObject(f.owner), f.owner); apierrors.IsNotFound(err) {
			return before, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("somebody else has written it %d times in a row", attempts)
}

// giveChildren lets the children that this shard has, or has just given away, belong to another one. It
// does what it can: the sharder lets a child follow its owner that stays behind.
func (s *Shard) giveChildren(ctx context.Context, f *family, next string) {
	for _, child := range f.children {
		if err := s.giveChild(ctx, child, next); err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Info("A child is left to the sharder to move; does this shard's role have patch?",
				"kind", child.Kind, "namespace", child.Namespace, "name", child.Name, "error", err.Error())
		}
	}
}

func (s *Shard) giveChild(ctx context.Context, child *metav1.PartialObjectMetadata, next string) error {
	label := shardingv1alpha1.LabelShard(s.Ring())
	ours := child.Labels[label] // this shard, or the one that it was given to before
	for range attempts {
		if child.Labels[label] == next || child.Labels[label] != ours {
			return nil // it is there, or somebody else has moved it
		}
		err := s.write(ctx, child, next)
		if !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
		if err := s.writer.Get(ctx, client.ObjectKeyFromObject(child), child); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return fmt.Errorf("somebody else has written it %d times in a row", attempts)
}

// write gives an object to a shard in one write, or to nobody, and takes what the API server made of it.
func (s *Shard) write(ctx context.Context, object *metav1.PartialObjectMetadata, next string) error {
	content, err := handOverPatch(s.Ring(), object.ResourceVersion, next)
	if err != nil {
		return err
	}
	return s.writer.Patch(ctx, object, client.RawPatch(types.MergePatchType, content), client.FieldOwner(fieldManager))
}
