package sharder

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// fewNamespaces is up to how many namespaces are listed one by one instead of the whole cluster.
const fewNamespaces = 8

// namespaces knows which namespaces rings select. It reads the cache, and remembers for each ring what it found until a
// namespace changes.
type namespaces struct {
	reader client.Reader

	mu       sync.Mutex
	version  int // grows with each change of a namespace
	selected map[string]selected
	// resync are the rings that select other namespaces than before, and are resynced soon.
	resync map[string]bool
}

// resyncAfter is how long changes of namespaces are collected for.
const resyncAfter = 3 * time.Second

// reselected makes a ring be resynced soon, once for all namespaces that change meanwhile.
func (n *namespaces) reselected(ring string, resync func(ring string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.resync == nil {
		n.resync = map[string]bool{}
	}
	if n.resync[ring] = true; len(n.resync) > 1 {
		return // the first one waits already
	}
	time.AfterFunc(resyncAfter, func() {
		n.mu.Lock()
		rings := n.resync
		n.resync = nil
		n.mu.Unlock()
		for name := range rings {
			resync(name)
		}
	})
}

// selected are the namespaces that a ring selects, as of a version.
type selected struct {
	ring    *catalog.Ring
	version int
	names   []string // nil if they are not few
}

func newNamespace() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// selects tells whether a ring selects the objects of a namespace.
func (n *namespaces) selects(declared *catalog.Ring, name string) bool {
	namespace := newNamespace()
	err := n.reader.Get(context.Background(), client.ObjectKey{Name: name}, namespace, client.UnsafeDisableDeepCopy)
	return err == nil && declared.Namespaces.Matches(labels.Set(namespace.Labels))
}

// few returns the namespaces that a ring selects if these are few, and not all, or nil.
func (n *namespaces) few(declared *catalog.Ring) []string {
	n.mu.Lock()
	known, version := n.selected[declared.Name], n.version
	n.mu.Unlock()
	if known.ring == declared && known.version == version {
		return known.names
	}
	names := n.find(declared)
	n.mu.Lock()
	n.selected[declared.Name] = selected{ring: declared, version: version, names: names}
	n.mu.Unlock()
	return names
}

func (n *namespaces) find(declared *catalog.Ring) []string {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := n.reader.List(context.Background(), all, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the whole cluster
	}
	names := []string{}
	for i := range all.Items {
		if declared.Namespaces.Matches(labels.Set(all.Items[i].Labels)) {
			if names = append(names, all.Items[i].Name); len(names) > fewNamespaces {
				return nil
			}
		}
	}
	if len(names) == len(all.Items) {
		return nil
	}
	return names
}

func (n *namespaces) changed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.version++
}

func (n *namespaces) forget(ring string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.selected, ring)
}

// followNamespaces resyncs the rings that begin or cease to select a namespace.
func (s *Sharder) followNamespaces() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.namespaces.changed() },
		DeleteFunc: func(any) { s.namespaces.changed() },
		UpdateFunc: func(before, after any) {
			was, is := before.(*metav1.PartialObjectMetadata), after.(*metav1.PartialObjectMetadata)
			if maps.Equal(was.Labels, is.Labels) {
				return
			}
			s.namespaces.changed()
			for _, name := range s.rings.Names() {
				declared := s.rings.Get(name)
				if declared != nil && declared.Namespaces.Matches(labels.Set(was.Labels)) != declared.Namespaces.Matches(labels.Set(is.Labels)) {
					s.namespaces.reselected(name, s.group.Resync)
				}
			}
		},
	}
}
