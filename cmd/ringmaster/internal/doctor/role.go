package doctor

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// Role returns the ClusterRole with which everything can be checked except what needs to write or to read
// a Secret: dry-run creates and the serving certificate. An access review writes nothing.
func Role() *rbacv1.ClusterRole {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	crd := rule("apiextensions.k8s.io", "customresourcedefinitions", "get")
	crd.ResourceNames = []string{crdName}
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "sharding:doctor"},
		Rules: []rbacv1.PolicyRule{
			crd,
			rule(shardingv1alpha1.SchemeGroupVersion.Group, "controllerrings", "list"),
			rule("coordination.k8s.io", "leases", "get", "list"),
			rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "list"),
			rule("", "namespaces", "list"),
			rule("", "pods", "get", "list"),
			rule("", "services", "get"),
			rule("discovery.k8s.io", "endpointslices", "list"),
			rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		},
	}
}
