package inprocess

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
)

// namespaces knows which namespaces are selected. If the selector depends on names only, as the default does, it
// reads nothing, and the operator needs no permission to list namespaces.
type namespaces struct {
	selector labels.Selector
	informer toolscache.SharedIndexInformer
}

// newNamespaces returns namespaces that call changed when a namespace is selected or no longer selected, and added
// when a selected namespace is created.
func newNamespaces(selector *metav1.LabelSelector, client metadata.Interface, changed, added func()) (*namespaces, error) {
	read, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, err
	}
	n := &namespaces{selector: read}
	if OnlyNames(read) {
		return n, nil
	}
	n.informer = metadatainformer.NewSharedInformerFactory(client, 0).ForResource(corev1.SchemeGroupVersion.WithResource("namespaces")).Informer()
	err = n.informer.SetTransform(func(found any) (any, error) {
		if object, ok := found.(*metav1.PartialObjectMetadata); ok {
			object.ManagedFields, object.Annotations = nil, nil
		}
		return found, nil
	})
	if err != nil {
		return nil, err
	}
	_, err = n.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(found any) {
			if read.Matches(labelsOf(found)) {
				added()
			}
		},
		UpdateFunc: func(before, after any) {
			oldLabels, labels := labelsOf(before), labelsOf(after)
			if !maps.Equal(oldLabels, labels) && read.Matches(oldLabels) != read.Matches(labels) {
				changed()
			}
		},
	})
	return n, err
}

// OnlyNames reports whether a namespace selector depends on names only. The sharder then reads no namespaces.
func OnlyNames(selector labels.Selector) bool {
	requirements, selectable := selector.Requirements()
	for _, requirement := range requirements {
		if requirement.Key() != corev1.LabelMetadataName {
			return false
		}
	}
	return selectable
}

func labelsOf(namespace any) labels.Set {
	if object, ok := namespace.(*metav1.PartialObjectMetadata); ok {
		return object.Labels
	}
	return nil
}

func (n *namespaces) run(ctx context.Context) {
	if n.informer != nil {
		n.informer.RunWithContext(ctx)
	}
}

func (n *namespaces) synced() bool { return n.informer == nil || n.informer.HasSynced() }

// selects reports whether a namespace is selected.
func (n *namespaces) selects(name string) bool {
	if n.informer == nil {
		return n.selector.Matches(labels.Set{corev1.LabelMetadataName: name})
	}
	found, exists, err := n.informer.GetStore().GetByKey(name)
	return err == nil && exists && n.selector.Matches(labelsOf(found))
}
