//go:build e2e

package e2e

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// budget is the name of the sample operator, which gives every Deployment a PodDisruptionBudget.
const budget = "budget"

// ringManifest is the ring of that operator. Its first argument is the name of the ring and of the
// operator's namespace, its second that of the namespace with objects.
const ringManifest = `
apiVersion: sharding.timebertt.dev/v1alpha1
kind: ControllerRing
metadata:
  name: %[1]s
spec:
  resources:
  - group: apps
    resource: deployments
    controlledResources:
    - group: policy
      resource: poddisruptionbudgets
  namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: %[2]s
  shardNamespaces: [%[1]s]
`

// budgetRole has the permissions of the operator beside those of a shard.
const budgetRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules:
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects:
- {kind: ServiceAccount, namespace: %[1]s, name: budget}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: budget, namespace: %[1]s}
`

func budgetDeployment(ring string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": budget}
	spec := restrictedPod(container(budget, "--ring="+ring))
	spec.ServiceAccountName = budget
	operator := &spec.Containers[0]
	for name, field := range map[string]string{"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"} {
		source := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}
		operator.Env = append(operator.Env, corev1.EnvVar{Name: name, ValueFrom: source})
	}
	operator.ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(8081)}},
		PeriodSeconds: 1,
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: budget},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}

// site is a sharded object: a Deployment without pods, which the test does not need.
func site(name string) *appsv1.Deployment {
	labels := map[string]string{"site": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       restrictedPod(container("hello")),
			},
		},
	}
}

func siteName(i int) string { return fmt.Sprintf("site-%d", i) }
