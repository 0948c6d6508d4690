package rings

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// maxRingsPerResource is the number of rings that can list one main resource without failing requests while the
// sharder is unreachable: API servers wait for one timeout after the other, and cancel a request after 34 s. The
// rest is for the request itself.
const maxRingsPerResource = 30

// Shared is a main resource of a ring that other rings list as well.
type Shared struct {
	Resource schema.GroupResource
	// Rings are the names of the other rings.
	Rings []string
}

func (s Shared) String() string {
	word := "ring"
	if len(s.Rings) > 1 {
		word = "rings"
	}
	return fmt.Sprintf("%s (%s %s)", s.Resource, word, prose.List(s.Rings))
}

// sharedResources returns the main resources of a ring that other rings list as well, for overlapping namespaces.
func sharedResources(known *catalog.Ring, all []shardingv1alpha1.ControllerRing, defaultNamespaces *metav1.LabelSelector) []Shared {
	var shared []Shared
	for i := range known.Resources {
		resource := &known.Resources[i]
		if !resource.Main() {
			continue
		}
		found := Shared{Resource: resource.Resource.GroupResource()}
		for i := range all {
			if other := &all[i]; other.Name != known.Name && other.DeletionTimestamp == nil && hasMain(other, found.Resource) &&
				(!resource.Kind.Namespaced || overlap(known.Namespaces, other, defaultNamespaces)) {
				found.Rings = append(found.Rings, other.Name)
			}
		}
		if len(found.Rings) > 0 {
			slices.Sort(found.Rings)
			shared = append(shared, found)
		}
	}
	slices.SortStableFunc(shared, func(a, b Shared) int { return cmp.Compare(len(b.Rings), len(a.Rings)) })
	return shared
}

// ShareMain reports whether two rings have a main resource in common.
func ShareMain(a, b *shardingv1alpha1.ControllerRing) bool {
	return slices.ContainsFunc(a.Spec.Resources, func(main shardingv1alpha1.RingResource) bool {
		return hasMain(b, schema.GroupResource{Group: main.Group, Resource: main.Resource})
	})
}

func hasMain(ring *shardingv1alpha1.ControllerRing, resource schema.GroupResource) bool {
	return slices.ContainsFunc(ring.Spec.Resources, func(main shardingv1alpha1.RingResource) bool {
		return main.Group == resource.Group && main.Resource == resource.Resource
	})
}

// overlap reports whether a ring may select a namespace that the selector selects too.
func overlap(selector labels.Selector, ring *shardingv1alpha1.ControllerRing, defaultNamespaces *metav1.LabelSelector) bool {
	selected := ring.Spec.NamespaceSelector
	if selected == nil {
		selected = defaultNamespaces
	}
	other, err := metav1.LabelSelectorAsSelector(selected)
	return err == nil && !disjoint(selector, other) // the schema keeps bad ones out
}

// disjoint reports whether two selectors require different values of one label.
func disjoint(a, b labels.Selector) bool {
	these, selectable := a.Requirements()
	those, otherSelectable := b.Requirements()
	if !selectable || !otherSelectable {
		return true
	}
	for i := range these {
		for j := range those {
			if these[i].Key() == those[j].Key() && (exclude(&these[i], &those[j]) || exclude(&those[j], &these[i])) {
				return true
			}
		}
	}
	return false
}

// exclude reports whether no value of a label meets both requirements. It checks one order of the two.
func exclude(a, b *labels.Requirement) bool {
	values := sets.New(a.Values().UnsortedList()...)
	switch a.Operator() {
	case selection.In, selection.Equals, selection.DoubleEquals:
		switch b.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			return !values.HasAny(b.Values().UnsortedList()...)
		case selection.NotIn, selection.NotEquals:
			return sets.New(b.Values().UnsortedList()...).IsSuperset(values)
		case selection.DoesNotExist:
			return true
		default:
			return false
		}
	case selection.Exists:
		return b.Operator() == selection.DoesNotExist
	default:
		return false
	}
}

// exclusiveCondition returns the condition for rings with shared main resources, or nil if there are none.
func exclusiveCondition(shared []Shared) *metav1.Condition {
	if len(shared) == 0 {
		return nil
	}
	condition := &metav1.Condition{
		Type: shardingv1alpha1.ConditionExclusive, Status: metav1.ConditionFalse, Reason: shardingv1alpha1.ReasonSharedResource,
		Message: fmt.Sprintf("Other rings have the same main resources: %s. While the sharder is unreachable, each ring delays "+
			"requests for such objects by %ds.", prose.List(shared), webhookTimeout),
	}
	if rings := 1 + len(shared[0].Rings); rings > maxRingsPerResource {
		condition.Reason = shardingv1alpha1.ReasonTooManyRings
		condition.Message = fmt.Sprintf("%d rings have the main resource %s; the limit is %d. While the sharder is unreachable, each ring "+
			"delays requests for such objects by %ds, and requests fail after 34s. Merge rings, or give them disjoint namespaceSelectors. "+
			"Shared resources: %s.", rings, shared[0].Resource, maxRingsPerResource, webhookTimeout, prose.List(shared))
	}
	return condition
}
