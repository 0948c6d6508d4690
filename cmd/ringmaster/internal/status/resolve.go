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

// resolve looks up what a ring spreads.
func (r *Reader) resolve(ctx context.Context, d *declaration) (*facts, error) {
	spec, warnings := d.spec()
	f := &facts{declaration: d, warnings: warnings}
	var err error
	f.spread, err = catalog.Resolve(spec, r.mapper, r.defaultNamespaces(ctx, d))
	if unknown, is := errors.AsType[*catalog.UnknownResourceError](err); is {
		f.unknown = unknown.Resources
	} else if err != nil {
		return nil, fmt.Errorf("looking up what the ring %s spreads: %w", d.name, err)
	}
	for range f.spread.Resources {
		f.tallies = append(f.tallies, newTally())
	}
	return f, nil
}

// defaultNamespaces selects the namespaces of a ring that does not say. The sharder can be configured to
// select others than usual, which shows in the ring's webhook.
func (r *Reader) defaultNamespaces(ctx context.Context, d *declaration) *metav1.LabelSelector {
	selector := shardingv1alpha1.DefaultNamespaceSelector()
	if d.ring == nil || d.ring.Spec.NamespaceSelector != nil {
		return selector
	}
	webhooks, err := r.core.AdmissionregistrationV1().MutatingWebhookConfigurations().
		Get(ctx, shardingv1alpha1.WebhookConfigurationName(d.name), metav1.GetOptions{})
	if err != nil {
		return selector // not everybody may read it, and the usual is likely
	}
	for i := range webhooks.Webhooks {
		if webhooks.Webhooks[i].Name == shardingv1alpha1.WebhookName && webhooks.Webhooks[i].NamespaceSelector != nil {
			return webhooks.Webhooks[i].NamespaceSelector
		}
	}
	return selector
}

// byName tells whether the names of namespaces are enough for a selector.
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

// selectNamespaces finds out which namespaces each ring selects. Only is the one that matters, or "" for
// all.
func (r *Reader) selectNamespaces(ctx context.Context, w *world, only string) {
	var asked []*facts
	for _, f := range w.rings {
		f.selects = func(namespace string) bool {
			return f.spread.Namespaces.Matches(labels.Set{corev1.LabelMetadataName: namespace})
		}
		if !byName(f.spread.Namespaces) {
			asked = append(asked, f)
		}
	}
	if len(asked) == 0 {
		return
	}
	selected := make([]map[string]bool, len(asked))
	for i := range selected {
		selected[i] = map[string]bool{}
	}
	err := r.eachNamespace(ctx, only, func(namespace *metav1.PartialObjectMetadata) {
		for i, f := range asked {
			if f.spread.Namespaces.Matches(labels.Set(namespace.Labels)) {
				selected[i][namespace.Name] = true
			}
		}
	})
	for i, f := range asked {
		f.selects = func(namespace string) bool { return selected[i][namespace] }
		if err != nil {
			f.selects = func(string) bool { return true }
			f.warnings = append(f.warnings, fmt.Sprintf("objects of all namespaces are taken for the ring's, because it cannot be read which ones it selects: %v", err))
		}
	}
}

func (r *Reader) eachNamespace(ctx context.Context, only string, visit func(*metav1.PartialObjectMetadata)) error {
	if only == "" {
		return r.each(ctx, r.metadata.Resource(namespacesResource), visit)
	}
	namespace, err := r.metadata.Resource(namespacesResource).Get(ctx, only, metav1.GetOptions{})
	if err == nil {
		visit(namespace)
	}
	return err
}
