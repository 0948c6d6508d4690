package moves_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// fakeAPI is an API server in memory, for simulations in fake time. It knows lists in pages and patches of labels, counts
// them, and fails as a test wants it to.
type fakeAPI struct {
	// listFails and patchFails return the error that a request gets, or nil.
	listFails  func(resource string, options metav1.ListOptions) error
	patchFails func(ctx context.Context, resource, name string) error

	mu      sync.Mutex
	version int
	objects map[string]map[string]*metav1.PartialObjectMetadata // by resource and name
	names   map[string][]string                                 // by resource, sorted
	lists   map[string]int
	patches map[string]int
}

func newFakeAPI() *fakeAPI {
	return &fakeAPI{
		listFails:  func(string, metav1.ListOptions) error { return nil },
		patchFails: func(context.Context, string, string) error { return nil },
		objects:    map[string]map[string]*metav1.PartialObjectMetadata{}, names: map[string][]string{},
		lists: map[string]int{}, patches: map[string]int{},
	}
}

func (a *fakeAPI) create(resource, name string, shardLabels map[string]string, owners ...metav1.OwnerReference) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	if a.objects[resource] == nil {
		a.objects[resource] = map[string]*metav1.PartialObjectMetadata{}
	}
	if i, known := slices.BinarySearch(a.names[resource], name); !known {
		a.names[resource] = slices.Insert(a.names[resource], i, name)
	}
	a.objects[resource][name] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "simulation", Name: name, UID: types.UID(resource + "/" + name), ResourceVersion: strconv.Itoa(a.version),
		Labels: maps.Clone(shardLabels), OwnerReferences: owners,
	}}
}

func (a *fakeAPI) label(resource, name, key string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.objects[resource][name].Labels[key]
}

// requests are the lists and patches of all resources so far.
func (a *fakeAPI) requests() (lists, patches map[string]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.lists), maps.Clone(a.patches)
}

func (a *fakeAPI) Resource(resource schema.GroupVersionResource) metadata.Getter {
	return fakeResource{api: a, resource: resource.Resource}
}

type fakeResource struct {
	metadata.ResourceInterface
	api      *fakeAPI
	resource string
}

func (r fakeResource) Namespace(string) metadata.ResourceInterface { return r }

func (r fakeResource) List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	r.api.lists[r.resource]++
	if err := r.api.listFails(r.resource, options); err != nil {
		return nil, err
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	page := &metav1.PartialObjectMetadataList{}
	after := strings.TrimPrefix(options.Continue, "fresh:")
	names := r.api.names[r.resource]
	first, found := slices.BinarySearch(names, after)
	if found {
		first++
	}
	for _, name := range names[first:] {
		object := r.api.objects[r.resource][name]
		if !selector.Matches(labels.Set(object.Labels)) || options.FieldSelector != "" && options.FieldSelector != "metadata.name="+name {
			continue
		}
		if options.Limit > 0 && int64(len(page.Items)) == options.Limit {
			page.Continue = page.Items[len(page.Items)-1].Name
			break
		}
		page.Items = append(page.Items, *object.DeepCopy())
	}
	return page, ctx.Err()
}

func (r fakeResource) Patch(ctx context.Context, name string, _ types.PatchType, content []byte, _ metav1.PatchOptions, _ ...string) (*metav1.PartialObjectMetadata, error) {
	r.api.mu.Lock()
	r.api.patches[r.resource]++
	r.api.mu.Unlock()
	if err := r.api.patchFails(ctx, r.resource, name); err != nil {
		return nil, err
	}
	change := struct {
		Metadata struct {
			ResourceVersion string
			Labels          map[string]*string
		}
	}{}
	if err := json.Unmarshal(content, &change); err != nil {
		return nil, err
	}
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	kind := schema.GroupResource{Resource: r.resource}
	object := r.api.objects[r.resource][name]
	if object == nil {
		return nil, apierrors.NewNotFound(kind, name)
	}
	if object.ResourceVersion != change.Metadata.ResourceVersion {
		return nil, apierrors.NewConflict(kind, name, fmt.Errorf("it is at version %s", object.ResourceVersion))
	}
	if object.Labels == nil {
		object.Labels = map[string]string{}
	}
	for key, value := range change.Metadata.Labels {
		if value == nil {
			delete(object.Labels, key)
		} else {
			object.Labels[key] = *value
		}
	}
	r.api.version++
	object.ResourceVersion = strconv.Itoa(r.api.version)
	return object.DeepCopy(), nil
}
