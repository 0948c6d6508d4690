// Package roles returns the RBAC roles and bindings that the sharder and the shards of a ring need.
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
	// sharderVerbs are the verbs that the sharder needs for the objects of a ring.
	sharderVerbs = []string{"list", "patch"}
	// shardVerbs are the verbs that a shard needs for them: to watch and release them. The role of its
	// controller has the other verbs.
	shardVerbs = []string{"get", "list", "watch", "patch"}
	// leaseVerbs are the verbs that a shard needs for Leases: to renew its own and to find its peers.
	leaseVerbs = []string{"get", "list", "create", "update"}
	// sharderLeaseVerbs are the verbs that an in-process sharder needs for Leases: to show the states of shards, and
	// to take over and delete Leases.
	sharderLeaseVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete"}
)

// Sharder is the ServiceAccount of the sharder, as config/ installs it.
var Sharder = types.NamespacedName{Namespace: shardingv1alpha1.NamespaceSystem, Name: "sharder"}

// ForSharder returns the permissions of the sharder for a ring: for its objects, its webhook configuration, and the
// Leases in the namespaces of its shards. For an open ring, these are the Leases of all namespaces.
func ForSharder(ring *shardingv1alpha1.ControllerRing) []runtime.Object {
	name := "sharding:sharder:" + ring.Name
	namespaces := ring.MemberNamespaces()
	all := append(rules(ring, sharderVerbs), WebhookRule(ring.Name))
	if len(namespaces) == 0 {
		all = append(all, LeaseRule())
	}
	objects := []runtime.Object{
		clusterRole(ring, name, all),
		clusterRoleBinding(ring, name, name, Sharder),
	}
	for _, namespace := range namespaces {
		role := &rbacv1.Role{TypeMeta: typeMeta("Role"), ObjectMeta: objectMeta(ring, name), Rules: []rbacv1.PolicyRule{LeaseRule()}}
		binding := &rbacv1.RoleBinding{
			TypeMeta: typeMeta("RoleBinding"), ObjectMeta: objectMeta(ring, name), RoleRef: reference("Role", name), Subjects: subjects(Sharder),
		}
		role.Namespace, binding.Namespace = namespace, namespace
		objects = append(objects, role, binding)
	}
	return objects
}

// WebhookRule is the permission of the sharder to write the webhook configuration of a ring. Server-side apply creates
// an object by its name, so the permission is restricted to one name. RBAC cannot restrict what is in it.
func WebhookRule(ring string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"},
		ResourceNames: []string{shardingv1alpha1.WebhookConfigurationName(ring)}, Verbs: []string{"create", "patch", "delete"},
	}
}

// LeaseRule is the permission of the sharder to show the states of shards on their Leases, to take them over and to
// delete them. The previous version updates them.
func LeaseRule() rbacv1.PolicyRule { return leaseRules([]string{"update", "patch", "delete"})[0] }

// ForShards returns the permissions of a ring's shards that run as the account.
func ForShards(ring *shardingv1alpha1.ControllerRing, account types.NamespacedName) []runtime.Object {
	return forShards(ring, account, leaseRules(leaseVerbs), rules(ring, shardVerbs))
}

// ForInstances returns the permissions of a ring's shards that run as the account, with the in-process sharder.
func ForInstances(ring *shardingv1alpha1.ControllerRing, account types.NamespacedName) []runtime.Object {
	events := rbacv1.PolicyRule{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}
	objects := append(rules(ring, shardVerbs), rbacv1.PolicyRule{
		// To detect an external sharder.
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

// forShards returns a role in the shards' namespace, and a cluster role for the objects of the ring.
func forShards(ring *shardingv1alpha1.ControllerRing, account types.NamespacedName, own, objects []rbacv1.PolicyRule) []runtime.Object {
	name := "sharding:shard:" + ring.Name
	role := &rbacv1.Role{TypeMeta: typeMeta("Role"), ObjectMeta: objectMeta(ring, name), Rules: own}
	// Shards can have several accounts, which share the roles and have their own bindings.
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

// rules returns one rule for each API group, in a fixed order.
func rules(ring *shardingv1alpha1.ControllerRing, verbs []string) []rbacv1.PolicyRule {
	groups := map[string][]string{}
	for i := range ring.Spec.Resources {
		main := &ring.Spec.Resources[i]
		for _, resource := range append([]shardingv1alpha1.GroupResource{main.GroupResource}, main.ControlledResources...) {
			if !slices.Contains(groups[resource.Group], resource.Resource) { // several resources may control the same one
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
