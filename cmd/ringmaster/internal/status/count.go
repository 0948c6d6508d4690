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
	// pageSize is how many objects are read at once.
	pageSize = 500
	// concurrency is how many resources are read at once. A page is some hundred kilobytes.
	concurrency = 4
)

// each reads all objects, page by page, and keeps none. With a limit and no resourceVersion a page comes
// from the API server's watch cache.
func (r *Reader) each(ctx context.Context, client metadata.ResourceInterface, visit func(*metav1.PartialObjectMetadata)) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := client.List(ctx, options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			// It took so long that the API server has forgotten the list. It offers to go on with the objects
			// as they are now, which is as good.
			if expired, is := errors.AsType[*apierrors.StatusError](err); is && expired.ErrStatus.Continue != "" {
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

// target is where the objects of a resource are counted, for one ring.
type target struct {
	ring     *facts
	resource *catalog.Resource
	tally    *tally
}

// countAll counts the objects of all rings: each resource once, whatever number of rings spreads it.
func (r *Reader) countAll(ctx context.Context, w *world, namespace string) {
	r.selectNamespaces(ctx, w, namespace)
	targets := map[schema.GroupVersionResource][]target{}
	for _, f := range w.rings {
		for i := range f.spread.Resources {
			resource := &f.spread.Resources[i]
			targets[resource.Resource] = append(targets[resource.Resource], target{f, resource, f.tallies[i]})
		}
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, concurrency)
	for resource, counted := range targets {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if err := r.count(ctx, resource, namespace, counted); err != nil {
				for _, t := range counted {
					t.tally.err = err
				}
			}
		})
	}
	group.Wait()
	for _, f := range w.rings {
		for i, t := range f.tallies {
			if t.err != nil {
				f.warnings = append(f.warnings, fmt.Sprintf("%s are not counted: %v%s", f.spread.Resources[i].Resource.GroupResource(), t.err, permission(t.err, namespace)))
			}
		}
	}
}

// permission says what to do about something that may not be read.
func permission(err error, namespace string) string {
	if apierrors.IsForbidden(err) && namespace == "" {
		return ". With -n, one namespace is enough"
	}
	return ""
}

// count counts the objects of a resource.
func (r *Reader) count(ctx context.Context, resource schema.GroupVersionResource, namespace string, targets []target) error {
	if !targets[0].resource.Kind.Namespaced {
		namespace = ""
	}
	return r.each(ctx, r.in(resource, namespace), func(object *metav1.PartialObjectMetadata) {
		for _, t := range targets {
			t.tally.add(t.ring.name, t.resource, object, object.Namespace == "" || t.ring.selects(object.Namespace))
		}
	})
}
