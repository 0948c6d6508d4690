package doctor

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// evaluateResources checks the resources and namespaces that the rings select.
func evaluateResources(f *Facts, rings []*ring) *Check {
	c := &Check{Name: checkResources}
	c.requireRings(f)
	rings = slices.DeleteFunc(slices.Clone(rings), func(r *ring) bool { return !r.exists() })
	if !f.Served.known() {
		c.unreadable("resources of the API server", f.Served.Err)
	} else {
		for _, r := range rings {
			evaluateServed(c, f, r)
		}
	}
	if !f.Namespaces.known() {
		c.unreadable("namespaces", f.Namespaces.Err)
	} else {
		for _, r := range rings {
			evaluateSelector(c, f, r)
		}
	}
	return c.message("all are served, and each ring selects a namespace")
}

func evaluateServed(c *Check, f *Facts, r *ring) {
	for _, resource := range resourcesOf(r.spec().Spec.Resources) {
		if _, served := f.Served.Value.Resources[resource]; served {
			continue
		}
		if err := f.Served.Value.Failed[resource.Group]; err != nil {
			c.unreadable("resources of the API group "+resource.Group, err)
			continue
		}
		correct := "correct spec.resources of the ring"
		if r.inProcess() {
			correct = "correct the resources that the controller declares"
		}
		c.add(Finding{
			Reason: ResourceNotServed, Status: Failure, Ring: r.name, Object: r.object(),
			Cause: fmt.Sprintf("the API server does not serve the resource %s, so the ring is not ready", resource),
			Next:  fmt.Sprintf("install the CRD of %s, or %s (plural, lower case, with its API group)", resource, correct),
		})
	}
}

func evaluateSelector(c *Check, f *Facts, r *ring) {
	if !slices.ContainsFunc(resourcesOf(r.spec().Spec.Resources), func(resource schema.GroupResource) bool {
		return f.Served.Value.Resources[resource].Namespaced
	}) {
		return
	}
	selector, err := r.selector(f)
	if err == nil && len(f.selected(selector)) > 0 {
		return
	}
	cause := fmt.Sprintf("the namespaceSelector %q selects none of the %d namespaces, so no namespaced object is assigned", selector, len(f.Namespaces.Value))
	if err != nil {
		cause = fmt.Sprintf("the namespaceSelector is invalid: %v", err)
	}
	field := "spec.namespaceSelector"
	if r.inProcess() {
		field = "shard.Options.NamespaceSelector"
	}
	c.add(Finding{
		Reason: SelectorMatchesNothing, Status: Warning, Ring: r.name, Object: r.object(), Cause: cause,
		Next: "label the namespaces, or correct " + field + ": kubectl get namespaces --show-labels",
	})
}

// selected returns the names of the namespaces that a selector selects.
func (f *Facts) selected(selector labels.Selector) (names []string) {
	for i := range f.Namespaces.Value {
		if selector.Matches(labels.Set(f.Namespaces.Value[i].Labels)) {
			names = append(names, f.Namespaces.Value[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// resourcesOf returns all resources and controlled resources, each once.
func resourcesOf(resources []shardingv1alpha1.RingResource) (all []schema.GroupResource) {
	for i := range resources {
		for _, each := range append([]shardingv1alpha1.GroupResource{resources[i].GroupResource}, resources[i].ControlledResources...) {
			if resource := groupResource(each); !slices.Contains(all, resource) {
				all = append(all, resource)
			}
		}
	}
	return all
}

func groupResource(resource shardingv1alpha1.GroupResource) schema.GroupResource {
	return schema.GroupResource{Group: resource.Group, Resource: resource.Resource}
}
