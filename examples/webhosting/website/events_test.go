package website

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

func filters() map[string]struct {
	predicate.Predicate
	object client.Object
} {
	meta := metav1.ObjectMeta{Generation: 1, UID: "u", Labels: map[string]string{"a": "b"}}
	return map[string]struct {
		predicate.Predicate
		object client.Object
	}{
		"Website":    {websiteChanged, &webhostingv1alpha1.Website{ObjectMeta: meta}},
		"ConfigMap":  {configMapChanged, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "b"}}},
		"Deployment": {deploymentChanged, &appsv1.Deployment{ObjectMeta: meta}},
		"Service":    {serviceChanged, &corev1.Service{ObjectMeta: meta}},
		"Ingress":    {ingressChanged, &networkingv1.Ingress{ObjectMeta: meta}},
	}
}

// TestPredicatesIgnoreResync passes unchanged objects, as a resync does.
func TestPredicatesIgnoreResync(t *testing.T) {
	for kind, filter := range filters() {
		t.Run(kind, func(t *testing.T) {
			same, _ := filter.object.DeepCopyObject().(client.Object)
			if filter.Update(event.UpdateEvent{ObjectOld: filter.object, ObjectNew: same}) {
				t.Error("an unchanged object passes")
			}
			same.SetResourceVersion("2")
			same.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "somebody"}})
			if filter.Update(event.UpdateEvent{ObjectOld: filter.object, ObjectNew: same}) {
				t.Error("a change of irrelevant metadata passes")
			}
			if !filter.Create(event.CreateEvent{Object: same}) || !filter.Delete(event.DeleteEvent{Object: same}) {
				t.Error("a creation or deletion does not pass")
			}
		})
	}
}

// TestPredicatesPassChanges passes changed objects.
func TestPredicatesPassChanges(t *testing.T) {
	for name, test := range map[string]struct {
		kind   string
		change func(client.Object)
		want   bool
	}{
		"a Website's spec":       {"Website", func(o client.Object) { o.SetGeneration(2) }, true},
		"a Website's annotation": {"Website", func(o client.Object) { o.SetAnnotations(map[string]string{"a": "b"}) }, true},
		"a Website's label":      {"Website", func(o client.Object) { o.SetLabels(nil) }, true},
		"a Website's status":     {"Website", func(o client.Object) { o.(*webhostingv1alpha1.Website).Status.Phase = "Ready" }, false},
		"a page":                 {"ConfigMap", func(o client.Object) { o.(*corev1.ConfigMap).Data["a"] = "c" }, true},
		"another's annotation":   {"ConfigMap", func(o client.Object) { o.SetAnnotations(map[string]string{"a": "b"}) }, false},
		"a child's label":        {"ConfigMap", func(o client.Object) { o.SetLabels(nil) }, true},
		"a child's owner":        {"Ingress", func(o client.Object) { o.SetOwnerReferences([]metav1.OwnerReference{{UID: "v"}}) }, true},
		"another child":          {"Service", func(o client.Object) { o.SetUID("v") }, true},
		"a Service's selector":   {"Service", func(o client.Object) { o.(*corev1.Service).Spec.Selector = map[string]string{"a": "b"} }, true},
		"a Service's status":     {"Service", func(o client.Object) { o.(*corev1.Service).Status.Conditions = []metav1.Condition{{Type: "A"}} }, false},
		"an Ingress' status": {"Ingress", func(o client.Object) {
			o.(*networkingv1.Ingress).Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "::1"}}
		}, false},
		"a Deployment's spec": {"Deployment", func(o client.Object) { o.SetGeneration(2) }, true},
		"an available Deployment": {"Deployment", func(o client.Object) {
			o.(*appsv1.Deployment).Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
		}, true},
		"an unavailable Deployment": {"Deployment", func(o client.Object) {
			o.(*appsv1.Deployment).Status = appsv1.DeploymentStatus{Replicas: 1, UnavailableReplicas: 1}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			filter := filters()[test.kind]
			after, _ := filter.object.DeepCopyObject().(client.Object)
			test.change(after)
			if got := filter.Update(event.UpdateEvent{ObjectOld: filter.object, ObjectNew: after}); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
