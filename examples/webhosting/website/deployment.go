package website

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The port of nginx, the pod and the Service. It is unprivileged.
const (
	port     = 8080
	portName = "http"
)

var targetPort = intstr.FromString(portName)

// The volumes of the pod: the ConfigMap, and a folder in which nginx may write.
const (
	volumeSite, pathSite = "website", "/etc/website"
	volumeTemp, pathTemp = "tmp", "/tmp"
)

func (s site) deployment() child {
	replicas := int32(1)
	if s.skipWorkload() {
		replicas = 0
	}
	current := &appsv1.Deployment{}
	desired := &appsv1.Deployment{ObjectMeta: s.objectMeta(), Spec: appsv1.DeploymentSpec{
		Replicas:             &replicas,
		RevisionHistoryLimit: new(int32(2)),
		Selector:             &metav1.LabelSelector{MatchLabels: s.selector()},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: s.selector(), Annotations: map[string]string{annotationChecksum: s.checksum()}},
			Spec:       s.pod(),
		},
	}}
	return child{"Deployment", desired, current, func() {
		applyLabels(current, desired)
		current.Spec.Replicas, current.Spec.RevisionHistoryLimit, current.Spec.Paused = desired.Spec.Replicas, desired.Spec.RevisionHistoryLimit, false
		applyPodTemplate(&current.Spec.Template, &desired.Spec.Template)
	}}
}

// applyPodTemplate keeps fields that users and tools may add, such as the annotation of kubectl rollout
// restart or a node selector.
func applyPodTemplate(current, desired *corev1.PodTemplateSpec) {
	applyLabels(current, desired)
	metav1.SetMetaDataAnnotation(&current.ObjectMeta, annotationChecksum, desired.Annotations[annotationChecksum])
	into, from := &current.Spec, &desired.Spec
	into.InitContainers, into.Containers, into.Volumes = from.InitContainers, from.Containers, from.Volumes
	into.SecurityContext = from.SecurityContext
	into.AutomountServiceAccountToken, into.EnableServiceLinks = from.AutomountServiceAccountToken, from.EnableServiceLinks
}

// pod returns the spec of a pod with nginx, which runs as an unprivileged user with a read-only
// root file system.
func (s site) pod() corev1.PodSpec {
	const nobody = 65534
	return corev1.PodSpec{
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			RunAsUser:      new(int64(nobody)),
			RunAsGroup:     new(int64(nobody)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{s.nginx()},
		Volumes: []corev1.Volume{
			{Name: volumeSite, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: s.name()},
				DefaultMode:          new(int32(0o644)),
			}}},
			{Name: volumeTemp, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
}

// nginx sets all fields of the container, including those that the API server would default,
// because the result is compared with the current object.
func (s site) nginx() corev1.Container {
	return corev1.Container{
		Name: "nginx", Image: s.image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"nginx", "-e", "stderr", "-c", pathSite + "/" + keyNginx, "-g", "daemon off;"},
		Ports:   []corev1.ContainerPort{{Name: portName, ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: targetPort, Scheme: corev1.URISchemeHTTP}},
			PeriodSeconds: 2, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
		},
		// Serves until the endpoint is removed everywhere.
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeSite, MountPath: pathSite, ReadOnly: true},
			{Name: volumeTemp, MountPath: pathTemp},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
}
