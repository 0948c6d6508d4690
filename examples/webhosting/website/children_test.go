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
		if is, found := c.want.(T); found {
			return is
		}
	}
	t.Fatalf("there is no %T", found)
	return found
}

// TestFamily looks at what all objects of a Website have in common.
func TestFamily(t *testing.T) {
	s := sample(nil)
	for _, c := range s.children() {
		t.Run(c.kind, func(t *testing.T) {
			if c.want.GetNamespace() != "shop" || c.want.GetName() != s.name() {
				t.Errorf("got %s/%s", c.want.GetNamespace(), c.want.GetName())
			}
			if !metav1.IsControlledBy(c.want, s.website) {
				t.Error("the Website does not control it")
			}
			if c.want.GetLabels()[labelManagedBy] != manager {
				t.Error("the cache does not select it")
			}
		})
	}
}

// TestFits looks whether the objects find each other.
func TestFits(t *testing.T) {
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
		t.Errorf("the Ingress leads to %v", backend)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	if service.Spec.Ports[0].TargetPort.StrVal != container.Ports[0].Name {
		t.Errorf("the Service leads to port %s", service.Spec.Ports[0].TargetPort.StrVal)
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
		"usually":          {nil, 1, "nginx"},
		"with the label":   {map[string]string{"skip-workload": "true"}, 0, "fake"},
		"whatever it says": {map[string]string{"skip-workload": "false"}, 0, "fake"},
		"with no value":    {map[string]string{"skip-workload": ""}, 0, "fake"},
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

func TestNewPageNewPods(t *testing.T) {
	one, other := sample(nil), sample(nil)
	other.html = "<html >"
	if one.checksum() == other.checksum() || one.checksum() != sample(nil).checksum() {
		t.Error("the checksum is not that of the page")
	}
	if wanted[*appsv1.Deployment](t, one).Spec.Template.Annotations[annotationChecksum] != one.checksum() {
		t.Error("the pods do not have it")
	}
}

// TestSettle makes an object that is as it should be, and one that others have added to, what it should be.
func TestSettle(t *testing.T) {
	s := sample(nil)
	for i, c := range s.children() {
		t.Run(c.kind, func(t *testing.T) {
			same := s.children()[i]
			into(same.found, same.want)
			same.settle()
			if !equality.Semantic.DeepEqual(same.found, same.want) {
				t.Errorf("it changes what needs no change:\n%s", cmp.Diff(same.want, same.found))
			}
			into(c.found, c.want)
			theirs := maps.Clone(c.want.GetLabels())
			theirs["shard"], theirs[labelManagedBy] = "shard-0", "me"
			c.found.SetLabels(theirs)
			c.settle()
			if got := c.found.GetLabels(); got["shard"] != "shard-0" || got[labelManagedBy] != manager {
				t.Errorf("got the labels %v", got)
			}
		})
	}
}

// TestSettlePods leaves what others may add to pods, and takes away what they may not.
func TestSettlePods(t *testing.T) {
	want := wanted[*appsv1.Deployment](t, sample(nil)).Spec.Template
	found := *want.DeepCopy()
	found.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
	found.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	found.Spec.InitContainers = []corev1.Container{{Name: "theirs"}}
	found.Spec.SecurityContext = nil
	settlePods(&found, &want)
	if found.Annotations["kubectl.kubernetes.io/restartedAt"] != "now" || found.Spec.NodeSelector["disk"] != "ssd" {
		t.Error("it takes away what is not ours")
	}
	if found.Annotations[annotationChecksum] != want.Annotations[annotationChecksum] || len(found.Spec.InitContainers) > 0 || found.Spec.SecurityContext == nil {
		t.Errorf("it leaves what is not right: %v", found)
	}
}

// into makes one object a copy of another.
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
