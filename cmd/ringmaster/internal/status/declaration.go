package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// declaration is a ring with all Leases that have to do with it.
type declaration struct {
	name string
	// ring is nil if there is no ControllerRing.
	ring *shardingv1alpha1.ControllerRing
	// shards are the Leases of its shards, sharders those of in-process sharders.
	shards, sharders []*coordinationv1.Lease
	// election is the Lease of the external sharder's replicas, or nil if it is not known; unelected is
	// whether there is none where it should be.
	election  *coordinationv1.Lease
	unelected bool
	// blind is whether the Leases could not be read.
	blind bool
}

// leases are all Leases that have to do with rings.
type leases struct {
	shards, sharders, leaders []coordinationv1.Lease
	election                  *coordinationv1.Lease
	unelected                 bool
	blind                     bool
}

// declarations finds the rings: those that were declared with a ControllerRing, and those that only
// Leases speak of. They are in the order of their names.
func declarations(rings []shardingv1alpha1.ControllerRing, found *leases) []*declaration {
	all := map[string]*declaration{}
	get := func(name string) *declaration {
		if all[name] == nil {
			all[name] = &declaration{name: name, election: found.election, unelected: found.unelected, blind: found.blind}
		}
		return all[name]
	}
	for i := range rings {
		get(rings[i].Name).ring = &rings[i]
	}
	for i := range found.shards {
		d := get(found.shards[i].Labels[shardingv1alpha1.LabelControllerRing])
		d.shards = append(d.shards, &found.shards[i])
	}
	for i := range found.sharders {
		d := get(found.sharders[i].Labels[shardingv1alpha1.LabelSharder])
		d.sharders = append(d.sharders, &found.sharders[i])
	}
	delete(all, "") // a label without a value names nothing
	return slices.SortedFunc(maps.Values(all), func(a, b *declaration) int { return cmp.Compare(a.name, b.name) })
}

// spec is the ring as it was declared: by the ControllerRing, or by what the shards say that they work
// on. The warnings say where they do not agree.
func (d *declaration) spec() (spec *shardingv1alpha1.ControllerRing, warnings []string) {
	said, warnings := d.said()
	if d.ring != nil {
		if missing := beyond(said, d.ring.Spec.Resources); len(missing) > 0 {
			warnings = append(warnings, fmt.Sprintf("the shards work on %s, which the ControllerRing does not have in spec.resources: "+
				"add it there, or nobody gets those objects", prose.List(missing)))
		}
		return d.ring, warnings
	}
	spec = &shardingv1alpha1.ControllerRing{}
	spec.Name, spec.Spec.Resources, spec.Spec.NamespaceSelector = d.name, said, d.selector()
	if len(said) == 0 {
		warnings = append(warnings, "what it spreads is not known: there is no ControllerRing, and no Lease has the annotation "+
			shardingv1alpha1.AnnotationResources)
	}
	return spec, warnings
}

// said is what the shards say that they work on, all together: those that hold their Leases, or else any.
func (d *declaration) said() (resources []shardingv1alpha1.RingResource, warnings []string) {
	for _, live := range []bool{true, false} {
		variants := map[string][]string{} // which shards say the same
		for _, lease := range d.shards {
			if text := lease.Annotations[shardingv1alpha1.AnnotationResources]; text != "" && held(lease) == live {
				variants[text] = append(variants[text], lease.Name)
			}
		}
		var different []string
		for _, text := range slices.Sorted(maps.Keys(variants)) {
			var one []shardingv1alpha1.RingResource
			if err := json.Unmarshal([]byte(text), &one); err != nil {
				warnings = append(warnings, fmt.Sprintf("what %s works on is not known: the annotation %s of its Lease: %v",
					prose.List(variants[text]), shardingv1alpha1.AnnotationResources, err))
				continue
			}
			different = append(different, variants[text][0])
			resources = merge(resources, one)
		}
		if len(different) > 1 {
			warnings = append(warnings, "not all shards work on the same, as it is during a rollout: compare "+prose.List(different))
		}
		if len(resources) > 0 {
			break
		}
	}
	return resources, warnings
}

// selector is which namespaces the shards say that they select, or nil for the default. It is the code of
// them all, so the first live one is as good as any.
func (d *declaration) selector() *metav1.LabelSelector {
	for _, live := range []bool{true, false} {
		for _, lease := range d.shards {
			selector := &metav1.LabelSelector{}
			text := lease.Annotations[shardingv1alpha1.AnnotationNamespaceSelector]
			if held(lease) == live && text != "" && json.Unmarshal([]byte(text), selector) == nil {
				return selector
			}
		}
	}
	return nil
}

// merge adds resources to others.
func merge(to, from []shardingv1alpha1.RingResource) []shardingv1alpha1.RingResource {
	for _, added := range from {
		at := slices.IndexFunc(to, func(known shardingv1alpha1.RingResource) bool { return known.GroupResource == added.GroupResource })
		if at < 0 {
			to = append(to, added)
			continue
		}
		for _, controlled := range added.ControlledResources {
			if !slices.Contains(to[at].ControlledResources, controlled) {
				to[at].ControlledResources = append(slices.Clone(to[at].ControlledResources), controlled)
			}
		}
	}
	return to
}

// beyond names the resources that are not among the known ones.
func beyond(resources, known []shardingv1alpha1.RingResource) []string {
	names := namesOf(known)
	return slices.DeleteFunc(namesOf(resources), func(name string) bool { return slices.Contains(names, name) })
}

// namesOf names all resources and controlled resources, each once.
func namesOf(resources []shardingv1alpha1.RingResource) []string {
	var names []string
	for i := range resources {
		main := &resources[i]
		for _, resource := range append([]shardingv1alpha1.GroupResource{main.GroupResource}, main.ControlledResources...) {
			name := schema.GroupResource{Group: resource.Group, Resource: resource.Resource}.String()
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
