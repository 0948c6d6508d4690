package ownership

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// withChildren is a main object with its children, as they were seen last.
type withChildren struct {
	object   *metav1.PartialObjectMetadata
	children []*metav1.PartialObjectMetadata
}

// withChildren looks in the caches. Children that are not there yet are left to the sharder, which lets them follow.
func (o *Ownership) withChildren(ctx context.Context, kind *Kind, object client.Object) (*withChildren, error) {
	found := &withChildren{object: reduce(kind, object)}
	for _, controlled := range kind.Controlled {
		if err := o.Objects.Each(ctx, controlled, object.GetUID(), func(child client.Object) error {
			if metav1.IsControlledBy(child, object) {
				found.children = append(found.children, reduce(controlled, child))
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("listing the children: %w", err)
		}
	}
	return found, nil
}

// reduce keeps what is needed to record an owner.
func reduce(kind *Kind, object client.Object) *metav1.PartialObjectMetadata {
	reduced := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), Labels: maps.Clone(object.GetLabels()),
	}}
	reduced.SetGroupVersionKind(kind.GroupVersionKind)
	return reduced
}

// giveChildren records the children that this shard owns, or has just given to another shard, for a shard. It does what it
// can: the sharder lets a child that stays behind follow its controller.
func (o *Ownership) giveChildren(ctx context.Context, f *withChildren, next string) {
	for _, child := range f.children {
		if err := o.giveChild(ctx, child, next); err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Info("Left a child to the sharder to move; is this shard allowed to patch it?",
				"kind", child.Kind, "namespace", child.Namespace, "name", child.Name, "error", err.Error())
		}
	}
}

func (o *Ownership) giveChild(ctx context.Context, child *metav1.PartialObjectMetadata, next string) error {
	ours := o.owner(child) // this shard, or the one that it was given to before
	for range attempts {
		if o.owner(child) == next || o.owner(child) != ours {
			return nil // it is there, or another client has moved it
		}
		err := o.write(ctx, child, next)
		if !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
		if err := o.read(ctx, child); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return fmt.Errorf("other clients have written it %d times in a row", attempts)
}
