package status

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

const (
	// pageSize is the number of objects that are read at once.
	pageSize = 500
	// concurrency is the number of resources that are read at once. A page is some hundred kilobytes.
	concurrency = 4
)

// forEachObject visits all objects of a resource, page by page. With a limit and without a resourceVersion, the API
// server takes a page from its watch cache.
func (r *Reader) forEachObject(ctx context.Context, client metadata.ResourceInterface, visit func(*metav1.PartialObjectMetadata)) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := client.List(ctx, options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			// The list took too long. The API server offers to continue with the current objects.
			if expired, ok := errors.AsType[*apierrors.StatusError](err); ok && expired.ErrStatus.Continue != "" {
				options.Continue = expired.ErrStatus.Continue
				continue
			}
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// countedResource is a resource of a ring whose objects are counted.
type countedResource struct {
	ring     *ringState
	resource *catalog.Resource
	counter  *objectCounter
}

// countObjects counts the objects of all rings. It lists each resource once, even if several rings have it.
func (r *Reader) countObjects(ctx context.Context, w *clusterState, namespace string) {
	r.selectNamespaces(ctx, w, namespace)
	byResource := map[schema.GroupVersionResource][]countedResource{}
	for _, f := range w.rings {
		for i := range f.spread.Resources {
			resource := &f.spread.Resources[i]
			f.counters = append(f.counters, newObjectCounter())
			byResource[resource.Resource] = append(byResource[resource.Resource], countedResource{f, resource, f.counters[i]})
		}
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, concurrency)
	for resource, counted := range byResource {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if err := r.countResource(ctx, resource, namespace, counted); err != nil {
				for _, c := range counted {
					c.counter.err = err
				}
			}
		})
	}
	group.Wait()
	for _, f := range w.rings {
		for i, counter := range f.counters {
			if counter.err != nil {
				resource := f.spread.Resources[i].Resource.GroupResource()
				f.warnings = append(f.warnings, fmt.Sprintf("%s are not counted: %v%s", resource, counter.err, permissionHint(counter.err, namespace)))
				w.unreadable = append(w.unreadable, fmt.Sprintf("%s of ring %q: %v", resource, f.name, counter.err))
			}
		}
	}
}

// permissionHint returns the next step if the user is not allowed to list objects.
func permissionHint(err error, namespace string) string {
	if apierrors.IsForbidden(err) && namespace == "" {
		return ". To count the objects of one namespace, add -n"
	}
	return ""
}

// countResource counts the objects of a resource.
func (r *Reader) countResource(ctx context.Context, resource schema.GroupVersionResource, namespace string, counted []countedResource) error {
	if !counted[0].resource.Kind.Namespaced {
		namespace = ""
	}
	return r.forEachObject(ctx, r.in(resource, namespace), func(object *metav1.PartialObjectMetadata) {
		for _, c := range counted {
			c.counter.add(c.ring.name, c.resource, object, object.Namespace == "" || c.ring.selects(object.Namespace))
		}
	})
}
