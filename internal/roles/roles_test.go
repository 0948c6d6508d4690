package roles_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/roles"
)

// ring has two main resources that control the same kind.
func ring() *shardingv1alpha1.ControllerRing {
	services := shardingv1alpha1.GroupResource{Resource: "services"}
	return &shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: "webhosting"},
		Spec: shardingv1alpha1.ControllerRingSpec{Resources: []shardingv1alpha1.RingResource{
			{
				GroupResource:       shardingv1alpha1.GroupResource{Group: "webhosting.timebertt.dev", Resource: "websites"},
				ControlledResources: []shardingv1alpha1.GroupResource{services, {Resource: "configmaps"}, {Group: "apps", Resource: "deployments"}},
			},
			{
				GroupResource:       shardingv1alpha1.GroupResource{Group: "webhosting.timebertt.dev", Resource: "themes"},
				ControlledResources: []shardingv1alpha1.GroupResource{services},
			},
		}},
	}
}

func objectRules(verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "services"}, Verbs: verbs},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: verbs},
		{APIGroups: []string{"webhosting.timebertt.dev"}, Resources: []string{"themes", "websites"}, Verbs: verbs},
	}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels: map[string]string{"alpha.sharding.timebertt.dev/controllerring": "webhosting"},
	}
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: name}
}

func reference(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: kind, Name: name}
}

func TestForSharder(t *testing.T) {
	sharder := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "sharding-system", Name: "sharder"}}
	leases := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"update", "patch", "delete"}}
	want := []runtime.Object{
		&rbacv1.ClusterRole{
			TypeMeta: kind("ClusterRole"), ObjectMeta: meta("", "sharding:sharder:webhosting"),
			Rules: append(objectRules("list", "patch"), rbacv1.PolicyRule{
				APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"},
				ResourceNames: []string{"controllerring-webhosting"}, Verbs: []string{"create", "patch", "delete"},
			}),
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta("", "sharding:sharder:webhosting"),
			RoleRef: reference("ClusterRole", "sharding:sharder:webhosting"), Subjects: sharder,
		},
		&rbacv1.Role{
			TypeMeta: kind("Role"), ObjectMeta: meta("hosting", "sharding:sharder:webhosting"), Rules: []rbacv1.PolicyRule{leases},
		},
		&rbacv1.RoleBinding{
			TypeMeta: kind("RoleBinding"), ObjectMeta: meta("hosting", "sharding:sharder:webhosting"),
			RoleRef: reference("Role", "sharding:sharder:webhosting"), Subjects: sharder,
		},
	}
	closed := ring()
	closed.Spec.Shards = &shardingv1alpha1.RingShards{ServiceAccounts: []shardingv1alpha1.ServiceAccount{
		{Namespace: "hosting", Name: "operator"}, {Namespace: "hosting", Name: "other"},
	}}
	if diff := cmp.Diff(want, roles.ForSharder(closed)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	closed.Spec.Shards = nil
	closed.Spec.ShardNamespaces, closed.Status.ShardNamespaces = []string{"hosting"}, []string{"former", "hosting"}
	if former := roles.ForSharder(closed); len(former) != 6 || former[4].(*rbacv1.Role).Namespace != "former" {
		t.Errorf("the sharder may not release the Leases of former namespaces: %v", former)
	}
	closed.Status.ShardNamespaces = []string{"*", "hosting"}
	if former := roles.ForSharder(closed); len(former) != 2 {
		t.Errorf("a ring that was open until now needs %d objects", len(former))
	}
	open := roles.ForSharder(ring())
	if diff := cmp.Diff(append(want[0].(*rbacv1.ClusterRole).Rules, leases), open[0].(*rbacv1.ClusterRole).Rules); diff != "" || len(open) != 2 {
		t.Errorf("an open ring needs %d objects (-want +got):\n%s", len(open), diff)
	}
}

func TestForShards(t *testing.T) {
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "hosting", Name: "operator"}}
	want := []runtime.Object{
		&rbacv1.Role{
			TypeMeta: kind("Role"), ObjectMeta: meta("hosting", "sharding:shard:webhosting"),
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
				Verbs: []string{"get", "list", "create", "update"},
			}},
		},
		&rbacv1.RoleBinding{
			TypeMeta: kind("RoleBinding"), ObjectMeta: meta("hosting", "sharding:shard:webhosting:operator"),
			RoleRef: reference("Role", "sharding:shard:webhosting"), Subjects: subjects,
		},
		&rbacv1.ClusterRole{
			TypeMeta: kind("ClusterRole"), ObjectMeta: meta("", "sharding:shard:webhosting"),
			Rules: objectRules("get", "list", "watch", "patch"),
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta("", "sharding:shard:webhosting:hosting:operator"),
			RoleRef: reference("ClusterRole", "sharding:shard:webhosting"), Subjects: subjects,
		},
	}
	got := roles.ForShards(ring(), types.NamespacedName{Namespace: "hosting", Name: "operator"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestForInstances has the permissions of the in-process sharder, and those for namespaces only if their labels
// are selected.
func TestForInstances(t *testing.T) {
	account := types.NamespacedName{Namespace: "hosting", Name: "operator"}
	chosen := ring()
	chosen.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"project": "true"}}
	controllerrings := rbacv1.PolicyRule{
		APIGroups: []string{"sharding.timebertt.dev"}, Resources: []string{"controllerrings"}, ResourceNames: []string{"webhosting"}, Verbs: []string{"get"},
	}
	namespaces := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"list", "watch"}}
	for name, test := range map[string]struct {
		ring *shardingv1alpha1.ControllerRing
		want []rbacv1.PolicyRule
	}{
		"all namespaces":    {ring(), append(objectRules("get", "list", "watch", "patch"), controllerrings)},
		"chosen namespaces": {chosen, append(objectRules("get", "list", "watch", "patch"), controllerrings, namespaces)},
	} {
		t.Run(name, func(t *testing.T) {
			got := roles.ForInstances(test.ring, account)
			own := []rbacv1.PolicyRule{
				{
					APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
					Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
				},
				{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
			}
			if diff := cmp.Diff(own, got[0].(*rbacv1.Role).Rules); diff != "" {
				t.Errorf("in the namespace (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, got[2].(*rbacv1.ClusterRole).Rules); diff != "" {
				t.Errorf("in the cluster (-want +got):\n%s", diff)
			}
		})
	}
}
