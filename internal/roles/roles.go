// Package roles says what a ring's sharder and shards have to be allowed, as RBAC roles.
//
// It promises that a role names exactly the ring's resources, and never a wildcard.
package roles

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

var (
	// sharderVerbs are what the sharder does with the objects of a ring.
	sharderVerbs = []string{"list", "patch"}
	// shardVerbs are what a shard does with them before it does its own work: it watches its share, and
	// takes its labels off or hands it over. What else its controller does is in the controller's role.
	shardVerbs = []string{"get", "list", "watch", "patch"}
	// leaseVerbs are what a shard does with Leases: it keeps its own, and finds its peers.
	leaseVerbs = []string{"get", "list", "create", "update"}
	// sharderLeaseVerbs are what an instance does besides that is the sharder of its ring: it shows the states
	// of all shards, takes the Leases of the dying over and deletes those of the dead.
	sharderLeaseVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete"}
)

// Sharder is the ServiceAccount of the sharder, as config/ installs it.
var Sharder = types.NamespacedName{Namespace: shardingv1alpha1.NamespaceSystem, Name: "sharder"}

// ForSharder returns what the sharder needs for the objects of a ring.
func ForSharder(ring *shardingv1alpha1.ControllerRing) []runtime.Object {
	name := "sharding:sharder:" + ring.Name
	return []runtime.Object{
		clusterRole(ring, name, rules(ring, sharderVerbs)),
		clusterRoleBinding(ring, name, name, Sharder),
	}
}

// ForShards returns what the shards of a ring need that run as the account.
func ForShards(ring *shardingv1alpha1.ControllerRing, account types.NamespacedName) []runtime.Object {
	return forShards(ring, account, leaseRules(leaseVerbs), rules(ring, shardVerbs))
}

// ForInstances returns what the shards of a ring need that run as the account and are the ring's sharder
// themselves.
func ForInstances(ring *shardingv1alpha1.ControllerRing, account types.NamespacedName) []runtime.Object {
	events := rbacv1.PolicyRule{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}
	objects := append(rules(ring, shardVerbs), rbacv1.PolicyRule{
		// Whether an external sharder is at work as well.
		APIGroups: []string{shardingv1alpha1.SchemeGroupVersion.Group}, Resources: []string{"controllerrings"},
		ResourceNames: []string{ring.Name}, Verbs: []string{"get"},
	})
	if ring.Spec.NamespaceSelector != nil {
		objects = append(objects, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"list", "watch"}})
	}
	return forShards(ring, account, append(leaseRules(sharderLeaseVerbs), events), objects)
}

func leaseRules(verbs []string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs}}
}

// forShards are roles for what is in the shards' namespace, and for the objects of the ring.
func forShards(ring *shardingv1alpha1.ControllerRing, account types.NamespacedName, own, objects []rbacv1.PolicyRule) []runtime.Object {
	name := "sharding:shard:" + ring.Name
	role := &rbacv1.Role{TypeMeta: typeMeta("Role"), ObjectMeta: objectMeta(ring, name), Rules: own}
	// Shards may run under several accounts. They share the roles, and each has its bindings.
	binding := &rbacv1.RoleBinding{
		TypeMeta:   typeMeta("RoleBinding"),
		ObjectMeta: objectMeta(ring, name+":"+account.Name),
		RoleRef:    reference("Role", name),
		Subjects:   subjects(account),
	}
	role.Namespace, binding.Namespace = account.Namespace, account.Namespace
	return []runtime.Object{
		role,
		binding,
		clusterRole(ring, name, objects),
		clusterRoleBinding(ring, name+":"+account.Namespace+":"+account.Name, name, account),
	}
}

// rules has one rule for each API group, in a fixed order.
func rules(ring *shardingv1alpha1.ControllerRing, verbs []string) []rbacv1.PolicyRule {
	groups := map[string][]string{}
	for i := range ring.Spec.Resources {
		main := &ring.Spec.Resources[i]
		for _, resource := range append([]shardingv1alpha1.GroupResource{main.GroupResource}, main.ControlledResources...) {
			if !slices.Contains(groups[resource.Group], resource.Resource) { // several may control the same
				groups[resource.Group] = append(groups[resource.Group], resource.Resource)
			}
		}
	}
	var all []rbacv1.PolicyRule
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: slices.Sorted(slices.Values(groups[group])), Verbs: verbs})
	}
	return all
}

func clusterRole(ring *shardingv1alpha1.ControllerRing, name string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{TypeMeta: typeMeta("ClusterRole"), ObjectMeta: objectMeta(ring, name), Rules: rules}
}

func clusterRoleBinding(ring *shardingv1alpha1.ControllerRing, name, role string, account types.NamespacedName) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta: typeMeta("ClusterRoleBinding"), ObjectMeta: objectMeta(ring, name),
		RoleRef: reference("ClusterRole", role), Subjects: subjects(account),
	}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// objectMeta has the ring's label, so that all roles of a ring can be found and deleted together.
func objectMeta(ring *shardingv1alpha1.ControllerRing, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: ring.Name}}
}

func reference(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func subjects(account types.NamespacedName) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}}
}
