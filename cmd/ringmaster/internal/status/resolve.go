package status

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// resolveAll looks up the resources of all rings.
func (r *Reader) resolveAll(ctx context.Context, w *clusterState) error {
	for _, f := range w.rings {
		spec, _ := f.spec()
		var err error
		f.spread, err = catalog.Resolve(spec, r.mapper, r.defaultNamespaces(ctx, f.declaration))
		if unknown, ok := errors.AsType[*catalog.UnknownResourceError](err); ok {
			f.unknown = unknown.Resources
		} else if err != nil {
			return fmt.Errorf("looking up the resources of ring %q: %w", f.name, err)
		}
	}
	return nil
}

// defaultNamespaces returns the selector of a ring without a namespaceSelector. The sharder can be configured with
// another default, which is in the ring's webhook configuration.
func (r *Reader) defaultNamespaces(ctx context.Context, d *declaration) *metav1.LabelSelector {
	selector := shardingv1alpha1.DefaultNamespaceSelector()
	if d.ring == nil || d.ring.Spec.NamespaceSelector != nil {
		return selector
	}
	webhooks, err := r.core.AdmissionregistrationV1().MutatingWebhookConfigurations().
		Get(ctx, shardingv1alpha1.WebhookConfigurationName(d.name), metav1.GetOptions{})
	if err != nil {
		return selector // the user may not read it, and the usual default is likely
	}
	for i := range webhooks.Webhooks {
		if webhooks.Webhooks[i].Name == shardingv1alpha1.WebhookName && webhooks.Webhooks[i].NamespaceSelector != nil {
			return webhooks.Webhooks[i].NamespaceSelector
		}
	}
	return selector
}

// byName reports whether a selector needs only the names of namespaces.
func byName(selector labels.Selector) bool {
	requirements, selectable := selector.Requirements()
	for i := range requirements {
		if requirements[i].Key() != corev1.LabelMetadataName {
			return false
		}
	}
	return selectable
}

var namespacesResource = corev1.SchemeGroupVersion.WithResource("namespaces")

// selectNamespaces finds out which namespaces each ring selects. If only is set, no other namespace matters.
func (r *Reader) selectNamespaces(ctx context.Context, w *clusterState, only string) {
	var byLabels []*ringState
	for _, f := range w.rings {
		f.selects = func(namespace string) bool {
			return f.spread.Namespaces.Matches(labels.Set{corev1.LabelMetadataName: namespace})
		}
		if !byName(f.spread.Namespaces) {
			byLabels = append(byLabels, f)
		}
	}
	if len(byLabels) == 0 {
		return
	}
	selected := make([]map[string]bool, len(byLabels))
	for i := range selected {
		selected[i] = map[string]bool{}
	}
	err := r.forEachNamespace(ctx, only, func(namespace *metav1.PartialObjectMetadata) {
		for i, f := range byLabels {
			if f.spread.Namespaces.Matches(labels.Set(namespace.Labels)) {
				selected[i][namespace.Name] = true
			}
		}
	})
	for i, f := range byLabels {
		f.selects = func(namespace string) bool { return selected[i][namespace] }
		if err != nil {
			f.selects = func(string) bool { return true }
			f.warnings = append(f.warnings, fmt.Sprintf("objects of all namespaces are counted, because the labels of namespaces cannot be read: %v", err))
		}
	}
}

func (r *Reader) forEachNamespace(ctx context.Context, only string, visit func(*metav1.PartialObjectMetadata)) error {
	if only == "" {
		return r.forEachObject(ctx, r.metadata.Resource(namespacesResource), visit)
	}
	namespace, err := r.metadata.Resource(namespacesResource).Get(ctx, only, metav1.GetOptions{})
	if err == nil {
		visit(namespace)
	}
	return err
}
