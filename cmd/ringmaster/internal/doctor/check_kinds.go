package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// role is a resource of a ring, with the resource of its controllers if it is a controlled one.
type role struct {
	resource, controller shardingv1alpha1.GroupResource
}

func (r role) String() string {
	if r.controller == (shardingv1alpha1.GroupResource{}) {
		return groupResource(r.resource).String()
	}
	return fmt.Sprintf("%s controlled by %s", groupResource(r.resource), groupResource(r.controller))
}

// evaluateKinds compares the resources of rings with those that their shards declare on their Leases.
func evaluateKinds(f *Facts, rings []*ring) *Check {
	c := &Check{Name: checkKinds}
	c.requireRings(f)
	declared := 0
	for _, r := range rings {
		if r.declared == nil || r.inProcessLeads(f.Now) != nil && !f.externalLeads() {
			continue // no sharder uses spec.resources
		}
		notWatched, notListed, count := r.differences()
		declared += count
		for _, found := range sortedRoles(notWatched) {
			c.add(Finding{
				Reason: KindNotWatched, Status: Failure, Ring: r.name, Object: r.object(),
				Cause: fmt.Sprintf("the ring lists %s, which %s not watch: such objects are not reconciled while they are assigned there",
					found, subject(notWatched[found], "does", "do")),
				Next: "update these shards to a version that watches it, or remove it from spec.resources",
			})
		}
		for _, found := range sortedRoles(notListed) {
			c.add(Finding{
				Reason: KindNotListed, Status: Failure, Ring: r.name, Object: r.object(),
				Cause: fmt.Sprintf("%s %s, which the ring does not list: such objects are not assigned, so no shard reconciles them",
					subject(notListed[found], "watches", "watch"), found),
				Next: fmt.Sprintf("kubectl edit controllerring %s, and add it to spec.resources", r.name),
			})
		}
	}
	return c.message("rings and shards agree; %s declared their resources", prose.Count(declared, "shard"))
}

func subject(shards []string, singular, plural string) string {
	if len(shards) == 1 {
		return "shard " + shards[0] + " " + singular
	}
	return "shards " + prose.List(shards) + " " + plural
}

// differences returns what available shards do not watch although the ring lists it, and the other way
// round, each with the names of the shards. Shards that declare nothing are not judged.
func (r *ring) differences() (notWatched, notListed map[role][]string, declared int) {
	notWatched, notListed = map[role][]string{}, map[role][]string{}
	listed := rolesOf(r.declared.Spec.Resources)
	for _, s := range r.available() {
		resources, ok := declaredResources(s.Lease)
		if !ok {
			continue
		}
		declared++
		watched := rolesOf(resources)
		for missing := range beyond(listed, watched) {
			notWatched[missing] = append(notWatched[missing], s.Name)
		}
		for missing := range beyond(watched, listed) {
			notListed[missing] = append(notListed[missing], s.Name)
		}
	}
	return notWatched, notListed, declared
}

func rolesOf(resources []shardingv1alpha1.RingResource) map[role]bool {
	roles := map[role]bool{}
	for i := range resources {
		roles[role{resource: resources[i].GroupResource}] = true
		for _, controlled := range resources[i].ControlledResources {
			roles[role{controlled, resources[i].GroupResource}] = true
		}
	}
	return roles
}

// beyond returns the roles that are not among others. A controlled resource whose main resource is
// missing is left out.
func beyond(roles, others map[role]bool) map[role]bool {
	missing := maps.Clone(roles)
	maps.DeleteFunc(missing, func(r role, _ bool) bool {
		main := role{resource: r.controller}
		return others[r] || r.controller != (shardingv1alpha1.GroupResource{}) && !others[main]
	})
	return missing
}

func sortedRoles(found map[role][]string) []role {
	return slices.SortedFunc(maps.Keys(found), func(a, b role) int { return cmp.Compare(a.String(), b.String()) })
}

// declaredResources returns the resources that a shard declares on its Lease. Any client may have written them.
func declaredResources(lease *coordinationv1.Lease) (resources []shardingv1alpha1.RingResource, ok bool) {
	text := lease.Annotations[shardingv1alpha1.AnnotationResources]
	const maxLength = 64 << 10
	if text == "" || len(text) > maxLength || json.Unmarshal([]byte(text), &resources) != nil {
		return nil, false
	}
	for _, resource := range resourcesOf(resources) {
		if resource.Resource == "" || strings.ContainsFunc(resource.String(), func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, false
		}
	}
	return resources, true
}
