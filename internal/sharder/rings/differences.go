package rings

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

const (
	// maxResources is the maximum number of main resources, and of controlled resources of each, of a ring or shard.
	maxResources = 32
	// maxEventNote is the maximum length of an event's note, and so of the condition's message. Clients can put long
	// names into it, of which maxShownName characters are shown.
	maxEventNote, maxShownName = 1024, 80
)

// Difference is a resource that a ring lists and some of its shards do not watch, or vice versa.
type Difference struct {
	// role is the resource, with the resource of its controllers if it is controlled.
	role
	// NotWatched is true if the ring lists the resource, and false if the shards watch it.
	NotWatched bool
	Shards     []string
}

// role is a main resource, or a resource controlled by a main resource.
type role struct {
	resource, controller shardingv1alpha1.GroupResource
}

func (r role) main() bool { return r.controller == shardingv1alpha1.GroupResource{} }

func (r role) String() string {
	if r.main() {
		return nameOf(r.resource)
	}
	return nameOf(r.resource) + " controlled by " + nameOf(r.controller)
}

func nameOf(resource shardingv1alpha1.GroupResource) string {
	name := schema.GroupResource{Group: resource.Group, Resource: resource.Resource}.String()
	if len(name) > maxShownName {
		return strings.ToValidUTF8(name[:maxShownName], "") + "…"
	}
	return name
}

func (d Difference) String() string {
	subject, does, watch := "shard ", "does", "watches"
	if len(d.Shards) > 1 {
		subject, does, watch = "shards ", "do", "watch"
	}
	subject += prose.List(d.Shards)
	if d.NotWatched {
		return fmt.Sprintf("%s %s not watch %s", subject, does, d.role)
	}
	return fmt.Sprintf("%s %s %s, which the ring does not list", subject, watch, d.role)
}

// rolesOf returns the roles of resources.
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

// minus returns the roles that are not among others. It skips controlled resources whose main resource is missing,
// because that is a difference of its own.
func minus(roles, others map[role]bool) (missing []role) {
	for r := range roles {
		if !others[r] && (r.main() || others[role{resource: r.controller}]) {
			missing = append(missing, r)
		}
	}
	return missing
}

// differences compares the resources of a ring with those that its shards declare. It skips shards that declare
// nothing or something invalid, and shards that are not assigned objects.
func differences(listed []shardingv1alpha1.RingResource, shards []members.Shard) []Difference {
	ring := rolesOf(listed)
	type key struct {
		role
		notWatched bool
	}
	found, parsed := map[key][]string{}, map[string][]key{}
	for _, shard := range shards {
		if !available(shard) || shard.Resources == "" {
			continue
		}
		keys, known := parsed[shard.Resources] // most shards declare the same
		if !known {
			if declared, ok := parseResources(shard.Resources); ok {
				roles := rolesOf(declared)
				for _, r := range minus(ring, roles) {
					keys = append(keys, key{r, true})
				}
				for _, r := range minus(roles, ring) {
					keys = append(keys, key{r, false})
				}
			}
			parsed[shard.Resources] = keys
		}
		for _, k := range keys {
			found[k] = append(found[k], shard.Name)
		}
	}
	all := make([]Difference, 0, len(found))
	for k, names := range found {
		all = append(all, Difference{role: k.role, NotWatched: k.notWatched, Shards: names})
	}
	slices.SortFunc(all, func(a, b Difference) int {
		if a.NotWatched != b.NotWatched {
			if a.NotWatched {
				return -1
			}
			return 1
		}
		return strings.Compare(a.role.String(), b.role.String())
	})
	return all
}

// parseResources parses the declaration on a shard's Lease, which any client may have written.
func parseResources(text string) (resources []shardingv1alpha1.RingResource, ok bool) {
	if json.Unmarshal([]byte(text), &resources) != nil || len(resources) > maxResources {
		return nil, false
	}
	for i := range resources {
		if !isName(resources[i].GroupResource) || len(resources[i].ControlledResources) > maxResources {
			return nil, false
		}
		if slices.ContainsFunc(resources[i].ControlledResources, func(c shardingv1alpha1.GroupResource) bool { return !isName(c) }) {
			return nil, false
		}
	}
	return resources, true
}

// isName reports whether a resource can have the name.
func isName(resource shardingv1alpha1.GroupResource) bool {
	const maxLength = 253
	return resource.Resource != "" && len(resource.Resource) <= maxLength && len(resource.Group) <= maxLength &&
		!strings.ContainsFunc(resource.Resource+resource.Group, func(r rune) bool {
			return r != '-' && r != '.' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
		})
}

// matchingCondition returns the condition for differences, or nil if there are none.
func matchingCondition(found []Difference) *metav1.Condition {
	if len(found) == 0 {
		return nil
	}
	const rest = 250 // the length of the rest of the message
	words, length := []string{}, rest
	for i, difference := range found {
		if length += len(difference.String()); i > 0 && length > maxEventNote {
			words = append(words, fmt.Sprintf("and %d more differences", len(found)-i))
			break
		}
		words = append(words, difference.String())
	}
	condition := &metav1.Condition{
		Type: shardingv1alpha1.ConditionMatching, Status: metav1.ConditionFalse, Reason: shardingv1alpha1.ReasonNotListed,
		Message: "The ring and its shards have different resources: " + strings.Join(words, "; ") + ". ",
	}
	if found[0].NotWatched {
		condition.Reason = shardingv1alpha1.ReasonNotWatched
		condition.Message += "Objects that their owner does not watch are not reconciled. "
	}
	condition.Message += "Correct spec.resources or the shards."
	return condition
}
