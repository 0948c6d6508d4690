package ownership

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// IsFenced reports whether the API server refused a write because of the ring's policy for writes to objects of other
// shards. It names the policy in its response.
func (o *Ownership) IsFenced(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "'"+o.fencePolicy+"'")
}

// OtherOwner reads from the API server which other shard owns an object. It returns "" if this shard owns it, nobody does,
// or that is not known.
func (o *Ownership) OtherOwner(ctx context.Context, kind *Kind, name types.NamespacedName) string {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	object.SetGroupVersionKind(kind.GroupVersionKind)
	if err := o.read(ctx, object); err != nil || o.isOwn(object) {
		return ""
	}
	return o.owner(object)
}
