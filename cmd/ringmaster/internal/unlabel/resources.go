package unlabel

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// Resource is a resource whose objects may have labels.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

// String returns the resource and its group, without the version.
func (r Resource) String() string { return r.GroupResource().String() }

// Named looks up resources by their names, such as websites.webhosting.timebertt.dev.
func Named(mapper meta.RESTMapper, names []string) ([]Resource, error) {
	var resources []Resource
	for _, name := range names {
		resource, err := lookUp(mapper, schema.ParseGroupResource(name))
		if meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("the API server does not know the resource %q: name it as in 'kubectl api-resources', "+
				"with its group, such as deployments.apps", name)
		}
		if err != nil {
			return nil, fmt.Errorf("looking up the resource %q: %w", name, err)
		}
		resources = append(resources, resource)
	}
	return resources, nil
}

// OfRing looks up the resources of a ring. It returns the names of those that the API server does not know.
func OfRing(mapper meta.RESTMapper, ring *shardingv1alpha1.ControllerRing) (resources []Resource, unknown []string, err error) {
	for i := range ring.Spec.Resources {
		main := &ring.Spec.Resources[i]
		for _, named := range append([]shardingv1alpha1.GroupResource{main.GroupResource}, main.ControlledResources...) {
			wanted := schema.GroupResource{Group: named.Group, Resource: named.Resource}
			resource, err := lookUp(mapper, wanted)
			if meta.IsNoMatchError(err) {
				unknown = append(unknown, wanted.String())
				continue
			}
			if err != nil {
				return nil, nil, fmt.Errorf("looking up the resource %s: %w", wanted, err)
			}
			if !slices.Contains(resources, resource) {
				resources = append(resources, resource)
			}
		}
	}
	return resources, unknown, nil
}

func lookUp(mapper meta.RESTMapper, named schema.GroupResource) (Resource, error) {
	kind, err := mapper.KindFor(named.WithVersion(""))
	if err != nil {
		return Resource{}, err
	}
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return Resource{}, err
	}
	return Resource{GroupVersionResource: mapping.Resource, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

// All returns every resource whose objects can be listed and patched. Together with an error it returns those of the API
// groups that answered.
func All(client discovery.ServerResourcesInterface) ([]Resource, error) {
	lists, err := client.ServerPreferredResources()
	var resources []Resource
	for _, list := range lists {
		version, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			return nil, parseErr
		}
		for i := range list.APIResources {
			found := &list.APIResources[i]
			if listableAndPatchable(found) {
				resources = append(resources, Resource{GroupVersionResource: version.WithResource(found.Name), Namespaced: found.Namespaced})
			}
		}
	}
	slices.SortFunc(resources, func(a, b Resource) int { return strings.Compare(a.String(), b.String()) })
	return resources, err
}

func listableAndPatchable(resource *metav1.APIResource) bool {
	return !strings.Contains(resource.Name, "/") && // not a subresource
		slices.Contains(resource.Verbs, "list") && slices.Contains(resource.Verbs, "patch")
}
