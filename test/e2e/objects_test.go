//go:build e2e

package e2e

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// hello is the name of the program, and of all objects that run it.
const hello = "hello"

const helloPort = 8080

func helloLabels() map[string]string { return map[string]string{"app": hello} }

func helloDeployment(version string, replicas int32) *appsv1.Deployment {
	spec := restrictedPod(container("hello"))
	spec.ServiceAccountName = hello
	spec.TerminationGracePeriodSeconds = new(int64(15)) // more than hello serves after SIGTERM
	server := &spec.Containers[0]
	server.Env = []corev1.EnvVar{
		{Name: "VERSION", Value: version},
		{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	}
	server.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: helloPort}}
	server.ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")}},
		PeriodSeconds: 1,
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: hello},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: helloLabels()},
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: new(intstr.FromInt32(0)),
					MaxSurge:       new(intstr.FromInt32(1)),
				},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: helloLabels()},
				Spec:       spec,
			},
		},
	}
}

func helloService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: hello},
		Spec: corev1.ServiceSpec{
			Selector: helloLabels(),
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}
}

// clientPod runs 'hello get' until it is deleted, or until a request fails after the first answer.
func clientPod(name, url string) *corev1.Pod {
	spec := restrictedPod(container("hello", "get", "-n", "0", "-every", "10ms", "-startup-timeout", testTimeout.String(), url))
	spec.RestartPolicy = corev1.RestartPolicyNever
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func container(name string, args ...string) corev1.Container {
	return corev1.Container{
		Name:            name,
		Image:           image(name),
		ImagePullPolicy: corev1.PullIfNotPresent, // the test node has no registry
		Args:            args,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// restrictedPod meets the strictest pod security standard.
func restrictedPod(container corev1.Container) corev1.PodSpec {
	return corev1.PodSpec{
		Containers: []corev1.Container{container},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
}
