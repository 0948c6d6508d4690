package install_test

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// TestPermissionsOfSharder reviews the permissions of the sharder after the installation, before any ring: those
// that it needs only after minutes, and those that it must not have.
func TestPermissionsOfSharder(t *testing.T) {
	i := install(t)
	const system = "sharding-system"
	for name, test := range map[string]struct {
		verb, group, resource, namespace, name string
		want                                   bool
	}{
		"watch Leases":                     {"watch", "coordination.k8s.io", "leases", "", "", true},
		"change Leases without a ring":     {"patch", "coordination.k8s.io", "leases", "shop", "pod-0", false},
		"delete Leases without a ring":     {"delete", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler", false},
		"intercept requests":               {"create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "controllerring-x", false},
		"change webhooks of others":        {"patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "istio", false},
		"see whether policies are there":   {"get", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "controllerring-x-fence", true},
		"remove policies":                  {"delete", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "controllerring-x-fence", false},
		"make Leases elsewhere":            {"create", "coordination.k8s.io", "leases", "shop", "", false},
		"renew its certificate":            {"update", "", "secrets", system, "sharder-webhook-cert", true},
		"read another Secret of its own":   {"get", "", "secrets", system, "other", false},
		"list Secrets":                     {"list", "", "secrets", system, "", false},
		"read Secrets elsewhere":           {"get", "", "secrets", "shop", "sharder-webhook-cert", false},
		"read pods":                        {"get", "", "pods", "shop", "", false},
		"write objects without a ring":     {"patch", "apps", "deployments", "shop", "", false},
		"change rings":                     {"update", "sharding.timebertt.dev", "controllerrings", "", "", false},
		"delete rings":                     {"delete", "sharding.timebertt.dev", "controllerrings", "", "", false},
		"give itself more":                 {"escalate", "rbac.authorization.k8s.io", "clusterroles", "", "", false},
		"bind roles":                       {"create", "rbac.authorization.k8s.io", "clusterrolebindings", "", "", false},
		"change namespaces":                {"patch", "", "namespaces", "", "shop", false},
		"hear of admission to all":         {"create", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "", false},
		"act as somebody else":             {"impersonate", "", "users", "", "", false},
		"ask who somebody is, for metrics": {"create", "authentication.k8s.io", "tokenreviews", "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + system + ":sharder",
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: test.verb, Group: test.group, Resource: test.resource, Namespace: test.namespace, Name: test.name,
				},
			}}
			if err := i.Client.Create(t.Context(), review); err != nil {
				t.Fatal(err)
			}
			if review.Status.Allowed != test.want {
				t.Errorf("allowed is %t, want %t: %s", review.Status.Allowed, test.want, review.Status.Reason)
			}
		})
	}
}
