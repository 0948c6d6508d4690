package website

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

func sample(labels map[string]string) site {
	return site{
		website: &webhostingv1alpha1.Website{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "homepage", UID: "u", Labels: labels}},
		html:    "<html>", image: "nginx:stable",
	}
}

func wanted[T client.Object](t *testing.T, s site) (found T) {
	t.Helper()
	for _, c := range s.children() {
		if is, found := c.desired.(T); found {
			return is
		}
	}
	t.Fatalf("no child of type %T", found)
	return found
}

// TestChildMetadata checks the metadata of all children.
func TestChildMetadata(t *testing.T) {
	s := sample(nil)
	for _, c := range s.children() {
		t.Run(c.kind, func(t *testing.T) {
			if c.desired.GetNamespace() != "shop" || c.desired.GetName() != s.name() {
				t.Errorf("got %s/%s", c.desired.GetNamespace(), c.desired.GetName())
			}
			if !metav1.IsControlledBy(c.desired, s.website) {
				t.Error("the Website is not the controller")
			}
			if c.desired.GetLabels()[labelManagedBy] != manager {
				t.Error("the label for the cache is missing")
			}
		})
	}
}

// TestChildrenReferToEachOther checks the references between children.
func TestChildrenReferToEachOther(t *testing.T) {
	s := sample(nil)
	deployment, service := wanted[*appsv1.Deployment](t, s), wanted[*corev1.Service](t, s)
	ingress, configMap := wanted[*networkingv1.Ingress](t, s), wanted[*corev1.ConfigMap](t, s)
	if diff := cmp.Diff(service.Spec.Selector, deployment.Spec.Template.Labels); diff != "" {
		t.Errorf("the Service selects other pods: %s", diff)
	}
	if diff := cmp.Diff(deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels); diff != "" {
		t.Errorf("the Deployment selects other pods: %s", diff)
	}
	backend := ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service
	if backend.Name != service.Name || backend.Port.Name != service.Spec.Ports[0].Name {
		t.Errorf("the Ingress refers to %v", backend)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	if service.Spec.Ports[0].TargetPort.StrVal != container.Ports[0].Name {
		t.Errorf("the Service refers to port %s", service.Spec.Ports[0].TargetPort.StrVal)
	}
	if volume := deployment.Spec.Template.Spec.Volumes[0]; volume.ConfigMap.Name != configMap.Name || volume.Name != container.VolumeMounts[0].Name {
		t.Errorf("the pod has the volume %v", volume)
	}
}

func TestSkipWorkload(t *testing.T) {
	for name, test := range map[string]struct {
		labels   map[string]string
		replicas int32
		class    string
	}{
		"no label":           {nil, 1, "nginx"},
		"with the label":     {map[string]string{"skip-workload": "true"}, 0, "fake"},
		"with another value": {map[string]string{"skip-workload": "false"}, 0, "fake"},
		"with no value":      {map[string]string{"skip-workload": ""}, 0, "fake"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sample(test.labels)
			if got := *wanted[*appsv1.Deployment](t, s).Spec.Replicas; got != test.replicas {
				t.Errorf("got %d replicas", got)
			}
			if got := *wanted[*networkingv1.Ingress](t, s).Spec.IngressClassName; got != test.class {
				t.Errorf("got the class %s", got)
			}
		})
	}
}

func TestChecksumOfPage(t *testing.T) {
	one, other := sample(nil), sample(nil)
	other.html = "<html >"
	if one.checksum() == other.checksum() || one.checksum() != sample(nil).checksum() {
		t.Error("the checksum does not depend on the page alone")
	}
	if wanted[*appsv1.Deployment](t, one).Spec.Template.Annotations[annotationChecksum] != one.checksum() {
		t.Error("the pods lack the checksum")
	}
}

// TestApply applies the desired state to an equal object, and to one with labels of others.
func TestApply(t *testing.T) {
	s := sample(nil)
	for i, c := range s.children() {
		t.Run(c.kind, func(t *testing.T) {
			same := s.children()[i]
			into(same.current, same.desired)
			same.apply()
			if !equality.Semantic.DeepEqual(same.current, same.desired) {
				t.Errorf("apply changes an object in its desired state:\n%s", cmp.Diff(same.desired, same.current))
			}
			into(c.current, c.desired)
			theirs := maps.Clone(c.desired.GetLabels())
			theirs["shard"], theirs[labelManagedBy] = "shard-0", "me"
			c.current.SetLabels(theirs)
			c.apply()
			if got := c.current.GetLabels(); got["shard"] != "shard-0" || got[labelManagedBy] != manager {
				t.Errorf("got the labels %v", got)
			}
		})
	}
}

// TestApplyPodTemplate keeps fields that others may set, and resets those that they may not.
func TestApplyPodTemplate(t *testing.T) {
	want := wanted[*appsv1.Deployment](t, sample(nil)).Spec.Template
	found := *want.DeepCopy()
	found.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
	found.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	found.Spec.InitContainers = []corev1.Container{{Name: "theirs"}}
	found.Spec.SecurityContext = nil
	applyPodTemplate(&found, &want)
	if found.Annotations["kubectl.kubernetes.io/restartedAt"] != "now" || found.Spec.NodeSelector["disk"] != "ssd" {
		t.Error("fields of others were removed")
	}
	if found.Annotations[annotationChecksum] != want.Annotations[annotationChecksum] || len(found.Spec.InitContainers) > 0 || found.Spec.SecurityContext == nil {
		t.Errorf("fields were not reset: %v", found)
	}
}

// into copies one object into another.
func into(found, want client.Object) {
	switch copied := want.DeepCopyObject().(type) {
	case *corev1.ConfigMap:
		*found.(*corev1.ConfigMap) = *copied
	case *appsv1.Deployment:
		*found.(*appsv1.Deployment) = *copied
	case *corev1.Service:
		*found.(*corev1.Service) = *copied
	case *networkingv1.Ingress:
		*found.(*networkingv1.Ingress) = *copied
	}
}
