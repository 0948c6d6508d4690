package install_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestNoWildcards(t *testing.T) {
	for name, folder := range map[string]string{"default": withDefault, "cert-manager": withCertManager, "monitoring": withMonitoring} {
		t.Run(name, func(t *testing.T) {
			for _, object := range build(t, folder) {
				if kind := object.GetKind(); kind != "Role" && kind != "ClusterRole" {
					continue
				}
				role := &rbacv1.ClusterRole{} // a Role has the same rules
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
					t.Fatal(err)
				}
				if role.AggregationRule != nil {
					t.Errorf("%s: the rules of an aggregated role are not known", role.Name)
				}
				for _, rule := range role.Rules {
					for _, values := range [][]string{rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames, rule.NonResourceURLs} {
						if slices.Contains(values, "*") {
							t.Errorf("%s: a wildcard in %v", role.Name, rule)
						}
					}
				}
			}
		})
	}
}

// TestPodIsRestricted has the API server check the pods against the policy in the namespace's labels.
func TestPodIsRestricted(t *testing.T) {
	g := NewWithT(t)
	i := install(t)
	deployment := only[appsv1.Deployment](t, build(t, withDefault), "Deployment")
	pod := &corev1.Pod{ObjectMeta: *deployment.Spec.Template.ObjectMeta.DeepCopy(), Spec: *deployment.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = deployment.Namespace, "sharder-0"
	// The API server observes the new namespace and priority class with a delay.
	g.Eventually(func() error { return i.Client.Create(t.Context(), pod.DeepCopy(), client.DryRunAll) }, "10s").Should(Succeed())

	root := pod.DeepCopy()
	root.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = new(true)
	err := i.Client.Create(t.Context(), root, client.DryRunAll)
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "the namespace takes anything: %v", err)
	g.Expect(err).To(MatchError(ContainSubstring("restricted")))
	g.Expect(*pod.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem).To(BeTrue())
}

// TestSelectorsMatch compares selectors with labels: an installation whose Service selects no pods looks
// healthy, but assigns nothing.
func TestSelectorsMatch(t *testing.T) {
	g := NewWithT(t)
	objects := build(t, withDefault)
	deployment := only[appsv1.Deployment](t, objects, "Deployment")
	pods := deployment.Spec.Template
	service := only[corev1.Service](t, objects, "Service")
	monitored := only[corev1.Service](t, build(t, withMonitoring), "Service")
	budget := only[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget")
	for name, selector := range map[string]map[string]string{
		"Deployment": deployment.Spec.Selector.MatchLabels, "Service": service.Spec.Selector,
		"metrics": monitored.Spec.Selector, "budget": budget.Spec.Selector.MatchLabels,
	} {
		for key, value := range selector {
			g.Expect(pods.Labels).To(HaveKeyWithValue(key, value), name)
		}
	}
	ports := map[string]int32{}
	for _, port := range pods.Spec.Containers[0].Ports {
		ports[port.Name] = port.ContainerPort
	}
	g.Expect(ports).To(Equal(map[string]int32{"webhook": 9443, "metrics": 8080, "health": 8081}), "the defaults of the SharderConfig")
	g.Expect(ports).To(HaveKey(service.Spec.Ports[0].TargetPort.StrVal))
	g.Expect(ports).To(HaveKey(monitored.Spec.Ports[0].TargetPort.StrVal))
	g.Expect(pods.Spec.ServiceAccountName).To(Equal(only[corev1.ServiceAccount](t, objects, "ServiceAccount").Name))
	g.Expect(pods.Spec.Volumes[0].ConfigMap.Name).To(Equal(only[corev1.ConfigMap](t, objects, "ConfigMap").Name), "with its hash")
	g.Expect(*pods.Spec.TerminationGracePeriodSeconds).To(BeNumerically(">", pods.Spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds+15),
		"preStop and gracefulShutDown")
}

// TestSecondInstallationChangesNothing because an upgrade applies the manifests again.
func TestSecondInstallationChangesNothing(t *testing.T) {
	g := NewWithT(t)
	i := install(t)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "sharding-system", Name: "sharder"}}
	g.Expect(i.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
	before := deployment.Generation
	i.kubectl(t, "", "apply", "--server-side", "--validate=strict", "-k", withDefault)
	g.Expect(i.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
	g.Expect(deployment.Generation).To(Equal(before))
	// The API server has all fields of config/: none was dropped or changed by a default.
	g.Expect(i.kubectl(t, "", "diff", "--server-side", "-k", withDefault)).To(BeEmpty())
}
