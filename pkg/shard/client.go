package shard

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json" // keeps large integers
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// labeller is a client that gives the children of this shard's objects the shard's label when it
// creates them. The webhook would do so too; but this needs no call of it, and works without one.
type labeller struct {
	client.Client
	shard *Shard
}

// Create implements client.Writer.
func (l *labeller) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	l.label(ctx, object)
	return l.Client.Create(ctx, object, options...)
}

// Update implements client.Writer. Reconcilers that set all labels of a child would take ours away.
func (l *labeller) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	l.label(ctx, object)
	return l.Client.Update(ctx, object, options...)
}

// Patch implements client.Writer. Of patches, only server-side apply can create a child.
func (l *labeller) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if patch.Type() == types.ApplyPatchType {
		l.label(ctx, object)
	}
	return l.Client.Patch(ctx, object, patch, options...)
}

// Apply implements client.Writer. Apply configurations have no accessors for labels and owners, so one that needs the label
// is applied in its unstructured form.
func (l *labeller) Apply(ctx context.Context, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	content, err := json.Marshal(config)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &object.Object); err != nil {
		return err
	}
	if !l.label(ctx, object) {
		return l.Client.Apply(ctx, config, options...)
	}
	if err := l.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
		return err
	}
	// As with any client, the configuration holds the answer then.
	if content, err = json.Marshal(object.Object); err != nil {
		return err
	}
	return json.Unmarshal(content, config)
}

// label adds the shard's label to a child of one of its objects, and tells whether it did.
func (l *labeller) label(ctx context.Context, object client.Object) bool {
	label := shardingv1alpha1.LabelShard(l.shard.Ring())
	owner := metav1.GetControllerOfNoCopy(object)
	if _, has := object.GetLabels()[label]; has || owner == nil {
		return false
	}
	if !l.shard.controls(ctx, owner, object) {
		return false
	}
	labels := map[string]string{label: l.shard.Name()}
	maps.Copy(labels, object.GetLabels())
	object.SetLabels(labels)
	return true
}

// controls tells whether an object is of a kind that follows its controller, and the controller is
// this shard's. A controller that works on all objects of a kind may share this client.
func (s *Shard) controls(ctx context.Context, owner *metav1.OwnerReference, object client.Object) bool {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return false
	}
	known := s.kinds.get(schema.GroupKind{Group: version.Group, Kind: owner.Kind})
	if known == nil {
		return false
	}
	gvk, err := s.writer.GroupVersionKindFor(object)
	if err != nil || !known.hasControlled(gvk.GroupKind()) {
		return false
	}
	// A cluster-scoped controller has no namespace, whatever its children have.
	for _, name := range []types.NamespacedName{{Namespace: object.GetNamespace(), Name: owner.Name}, {Name: owner.Name}} {
		found, err := s.get(ctx, known, name)
		if err == nil && found.GetUID() == owner.UID {
			return true
		}
	}
	return false
}

func (k *kind) hasControlled(of schema.GroupKind) bool {
	for _, controlled := range k.controlled {
		if controlled.GroupKind() == of {
			return true
		}
	}
	return false
}
