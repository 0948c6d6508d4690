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

// objectTree is a main object with its children, in their last known versions.
type objectTree struct {
	object   *metav1.PartialObjectMetadata
	children []*metav1.PartialObjectMetadata
}

// treeOf returns an object with its children in the caches. The sharder moves children that the caches
// do not have yet.
func (o *Ownership) treeOf(ctx context.Context, kind *Kind, object client.Object) (*objectTree, error) {
	tree := &objectTree{object: metadataOf(kind, object)}
	for _, controlled := range kind.Controlled {
		if err := o.Objects.ForEach(ctx, controlled, object.GetUID(), func(child client.Object) error {
			if metav1.IsControlledBy(child, object) {
				tree.children = append(tree.children, metadataOf(controlled, child))
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("listing the children: %w", err)
		}
	}
	return tree, nil
}

// metadataOf returns the metadata that is needed to record an owner.
func metadataOf(kind *Kind, object client.Object) *metav1.PartialObjectMetadata {
	metadata := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), Labels: maps.Clone(object.GetLabels()),
	}}
	metadata.SetGroupVersionKind(kind.GroupVersionKind)
	return metadata
}

// assignChildren records the next owner of the children that this shard owns, or has just assigned to
// another shard. It is best effort: the sharder moves the remaining children after their controller.
func (o *Ownership) assignChildren(ctx context.Context, tree *objectTree, next string) {
	for _, child := range tree.children {
		if err := o.assignChild(ctx, child, next); err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Info("Failed to move a child, leaving it to the sharder (is this shard allowed to patch it?)",
				"kind", child.Kind, "namespace", child.Namespace, "name", child.Name, "error", err.Error())
		}
	}
}

func (o *Ownership) assignChild(ctx context.Context, child *metav1.PartialObjectMetadata, next string) error {
	known := o.owner(child) // this shard, or the shard of an earlier attempt
	for range maxAttempts {
		if o.owner(child) == next || o.owner(child) != known {
			return nil // next owns it, or another client has moved it
		}
		err := o.write(ctx, child, next)
		if !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
		if err := o.read(ctx, child); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return fmt.Errorf("%d attempts in a row conflicted with writes of other clients", maxAttempts)
}
