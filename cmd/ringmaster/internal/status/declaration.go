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

// declaration is a ring with its Leases.
type declaration struct {
	name string
	// ring is the ControllerRing, or nil without one.
	ring *shardingv1alpha1.ControllerRing
	// shards are the Leases of its shards, sharders those of in-process sharders.
	shards, sharders []*coordinationv1.Lease
	// election is the Lease of the external sharder's election, or nil if it could not be read. electionMissing is
	// whether it does not exist in the namespace of the sharder.
	election        *coordinationv1.Lease
	electionMissing bool
	// leasesUnreadable is whether the Leases could not be read, and ringsUnreadable whether the ControllerRings could not.
	leasesUnreadable, ringsUnreadable bool
}

// leases are the Leases of all rings.
type leases struct {
	shards, sharders, leaders []coordinationv1.Lease
	election                  *coordinationv1.Lease
	electionMissing           bool

	leasesUnreadable, ringsUnreadable bool
}

// declarations returns all rings, sorted by name: those with a ControllerRing, and those that only Leases name.
func declarations(rings []shardingv1alpha1.ControllerRing, found *leases) []*declaration {
	all := map[string]*declaration{}
	get := func(name string) *declaration {
		if all[name] == nil {
			all[name] = &declaration{
				name: name, election: found.election, electionMissing: found.electionMissing,
				leasesUnreadable: found.leasesUnreadable, ringsUnreadable: found.ringsUnreadable,
			}
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
	delete(all, "") // a label without a value names no ring
	return slices.SortedFunc(maps.Values(all), func(a, b *declaration) int { return cmp.Compare(a.name, b.name) })
}

// spec returns the ControllerRing, or the spec that the shards declare on their Leases, and warnings about differences.
func (d *declaration) spec() (spec *shardingv1alpha1.ControllerRing, warnings []string) {
	declared, warnings := d.declaredByShards()
	if d.ring != nil {
		if missing := missingFrom(declared, d.ring.Spec.Resources); len(missing) > 0 {
			warnings = append(warnings, fmt.Sprintf("the shards reconcile %s, which spec.resources of the ControllerRing does not list: "+
				"add it, otherwise its objects stay unassigned", prose.List(missing)))
		}
		return d.ring, warnings
	}
	spec = &shardingv1alpha1.ControllerRing{}
	spec.Name, spec.Spec.Resources, spec.Spec.NamespaceSelector = d.name, declared, d.selector()
	if len(declared) == 0 {
		warnings = append(warnings, "the resources of the ring are not known: neither a ControllerRing exists, nor a Lease with the annotation "+
			shardingv1alpha1.AnnotationResources)
	}
	return spec, warnings
}

// declaredByShards returns the resources that live shards declare or, without one, those that dead shards declared.
func (d *declaration) declaredByShards() (resources []shardingv1alpha1.RingResource, warnings []string) {
	for _, live := range []bool{true, false} {
		variants := map[string][]string{} // shards by declaration
		for _, lease := range d.shards {
			if text := lease.Annotations[shardingv1alpha1.AnnotationResources]; text != "" && holdsLease(lease) == live {
				variants[text] = append(variants[text], lease.Name)
			}
		}
		var different []string
		for _, text := range slices.Sorted(maps.Keys(variants)) {
			var one []shardingv1alpha1.RingResource
			if err := json.Unmarshal([]byte(text), &one); err != nil {
				warnings = append(warnings, fmt.Sprintf("the resources of %s are not known: invalid annotation %s of its Lease: %v",
					prose.List(variants[text]), shardingv1alpha1.AnnotationResources, err))
				continue
			}
			different = append(different, variants[text][0])
			resources = merge(resources, one)
		}
		if len(different) > 1 {
			warnings = append(warnings, "not all shards declare the same resources, as during a rollout: compare "+prose.List(different))
		}
		if len(resources) > 0 {
			break
		}
	}
	return resources, warnings
}

// selector returns the selector of namespaces that the first live shard declares, or nil for the default.
func (d *declaration) selector() *metav1.LabelSelector {
	for _, live := range []bool{true, false} {
		for _, lease := range d.shards {
			selector := &metav1.LabelSelector{}
			text := lease.Annotations[shardingv1alpha1.AnnotationNamespaceSelector]
			if holdsLease(lease) == live && text != "" && json.Unmarshal([]byte(text), selector) == nil {
				return selector
			}
		}
	}
	return nil
}

// merge adds resources to a list that lacks some of them.
func merge(to, from []shardingv1alpha1.RingResource) []shardingv1alpha1.RingResource {
	for _, added := range from {
		i := slices.IndexFunc(to, func(known shardingv1alpha1.RingResource) bool { return known.GroupResource == added.GroupResource })
		if i < 0 {
			to = append(to, added)
			continue
		}
		for _, controlled := range added.ControlledResources {
			if !slices.Contains(to[i].ControlledResources, controlled) {
				to[i].ControlledResources = append(slices.Clone(to[i].ControlledResources), controlled)
			}
		}
	}
	return to
}

// missingFrom returns the names of the resources that are not among the known ones.
func missingFrom(resources, known []shardingv1alpha1.RingResource) []string {
	names := namesOf(known)
	return slices.DeleteFunc(namesOf(resources), func(name string) bool { return slices.Contains(names, name) })
}

// namesOf returns the names of all resources and controlled resources, without duplicates.
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

// kindsOf returns all resources and controlled resources, without duplicates.
func kindsOf(resources []shardingv1alpha1.RingResource) []Kind {
	var kinds []Kind
	for _, name := range namesOf(resources) {
		main := slices.ContainsFunc(resources, func(r shardingv1alpha1.RingResource) bool {
			return schema.GroupResource{Group: r.Group, Resource: r.Resource}.String() == name
		})
		kinds = append(kinds, Kind{Resource: name, Controlled: !main})
	}
	return kinds
}
