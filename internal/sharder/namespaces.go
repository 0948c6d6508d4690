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

// namespaces knows which namespaces rings select. It reads the cache, and keeps the result for each ring
// until a namespace changes.
type namespaces struct {
	reader client.Reader

	mu       sync.Mutex
	version  int                           // incremented by each change of a namespace
	selected map[string]selectedNamespaces // by ring
	// pendingResyncs are the rings whose selected namespaces have changed since their last resync.
	pendingResyncs map[string]bool
}

// resyncAfter debounces changes of namespaces.
const resyncAfter = 3 * time.Second

// resyncLater resyncs a ring after resyncAfter, once for all changes until then.
func (n *namespaces) resyncLater(ring string, resync func(ring string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pendingResyncs == nil {
		n.pendingResyncs = map[string]bool{}
	}
	if n.pendingResyncs[ring] = true; len(n.pendingResyncs) > 1 {
		return // the timer is already running
	}
	time.AfterFunc(resyncAfter, func() {
		n.mu.Lock()
		rings := n.pendingResyncs
		n.pendingResyncs = nil
		n.mu.Unlock()
		for name := range rings {
			resync(name)
		}
	})
}

// selectedNamespaces is the namespaces that a ring selects, as of a version.
type selectedNamespaces struct {
	ring    *catalog.Ring
	version int
	names   []string // nil for the whole cluster
}

func newNamespace() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// selects reports whether a ring selects the objects of a namespace.
func (n *namespaces) selects(declared *catalog.Ring, name string) bool {
	namespace := newNamespace()
	err := n.reader.Get(context.Background(), client.ObjectKey{Name: name}, namespace, client.UnsafeDisableDeepCopy)
	return err == nil && declared.Namespaces.Matches(labels.Set(namespace.Labels))
}

// list returns the namespaces to list one by one for a ring, or nil if it is cheaper to list the cluster.
func (n *namespaces) list(declared *catalog.Ring) []string {
	n.mu.Lock()
	known, version := n.selected[declared.Name], n.version
	n.mu.Unlock()
	if known.ring == declared && known.version == version {
		return known.names
	}
	names := n.find(declared)
	n.mu.Lock()
	n.selected[declared.Name] = selectedNamespaces{ring: declared, version: version, names: names}
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
			if names = append(names, all.Items[i].Name); len(names) > maxListedNamespaces {
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

// namespaceHandler resyncs the rings that start or stop selecting a namespace.
func (s *Sharder) namespaceHandler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.namespaces.changed() },
		DeleteFunc: func(any) { s.namespaces.changed() },
		UpdateFunc: func(before, after any) {
			old, namespace := before.(*metav1.PartialObjectMetadata), after.(*metav1.PartialObjectMetadata)
			if maps.Equal(old.Labels, namespace.Labels) {
				return
			}
			s.namespaces.changed()
			for _, name := range s.rings.Names() {
				declared := s.rings.Get(name)
				if declared != nil && declared.Namespaces.Matches(labels.Set(old.Labels)) != declared.Namespaces.Matches(labels.Set(namespace.Labels)) {
					s.namespaces.resyncLater(name, s.group.Resync)
				}
			}
		},
	}
}
