package website

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

// Labels of the children of a Website.
const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelManagedBy = "app.kubernetes.io/managed-by"
	manager        = "webhosting-operator"
)

const kindWebsite = "Website"

// managed has the label of every object that this operator creates. Caches select by it.
var managed = map[string]string{labelManagedBy: manager}

// Keys of the ConfigMap, which are files in the pod.
const (
	keyPage  = "index.html"
	keyNginx = "nginx.conf"
)

// annotationChecksum on the pods changes with the page, so that a new page triggers a rollout. The
// kubelet would update the file in running pods too, but only after a minute or two, and without a
// signal when the page is served.
const annotationChecksum = "webhosting.timebertt.dev/checksum"

// child is an object that a Website controls: its desired and its current state.
type child struct {
	kind             string
	desired, current client.Object
	// apply sets all fields in current that desired specifies. Other fields, such as defaults,
	// stay.
	apply func()
}

// site has the input for the children of a Website.
type site struct {
	website *webhostingv1alpha1.Website
	html    string
	image   string
}

// children returns the children of a Website, in the order in which they are needed.
func (s site) children() []child {
	return []child{s.configMap(), s.deployment(), s.service(), s.ingress()}
}

func (s site) name() string { return ServerName(client.ObjectKeyFromObject(s.website)) }

// skipWorkload returns true if the Website is for a load test, and needs no pods.
func (s site) skipWorkload() bool {
	_, skipped := s.website.Labels[webhostingv1alpha1.LabelSkipWorkload]
	return skipped
}

// selector returns the labels of the pods of a Website.
func (s site) selector() map[string]string {
	return map[string]string{labelName: "website", labelInstance: s.name()}
}

func (s site) objectMeta() metav1.ObjectMeta {
	labels := s.selector()
	maps.Copy(labels, managed)
	controller := metav1.NewControllerRef(s.website, webhostingv1alpha1.SchemeGroupVersion.WithKind(kindWebsite))
	return metav1.ObjectMeta{
		Namespace: s.website.Namespace, Name: s.name(), Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*controller},
	}
}

// applyLabels sets our labels, and keeps others, such as those of the sharder.
func applyLabels(current, desired metav1.Object) {
	labels := current.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, desired.GetLabels())
	current.SetLabels(labels)
}

func (s site) data() map[string]string {
	return map[string]string{keyPage: s.html, keyNginx: nginxConfig}
}

// checksum returns the checksum of the files of the pods.
func (s site) checksum() string {
	const digits = 16
	sum := sha256.Sum256([]byte(s.html + "\x00" + nginxConfig))
	return hex.EncodeToString(sum[:])[:digits]
}

func (s site) configMap() child {
	desired, current := &corev1.ConfigMap{ObjectMeta: s.objectMeta(), Data: s.data()}, &corev1.ConfigMap{}
	return child{"ConfigMap", desired, current, func() {
		applyLabels(current, desired)
		current.Data, current.BinaryData = desired.Data, nil
	}}
}

func (s site) service() child {
	desired, current := &corev1.Service{ObjectMeta: s.objectMeta(), Spec: corev1.ServiceSpec{
		Type:     corev1.ServiceTypeClusterIP,
		Selector: s.selector(),
		Ports:    []corev1.ServicePort{{Name: portName, Port: port, TargetPort: targetPort, Protocol: corev1.ProtocolTCP}},
	}}, &corev1.Service{}
	return child{"Service", desired, current, func() {
		applyLabels(current, desired)
		current.Spec.Type, current.Spec.Selector, current.Spec.Ports = desired.Spec.Type, desired.Spec.Selector, desired.Spec.Ports
		current.Spec.ExternalName = ""
	}}
}

func (s site) ingress() child {
	class, below := "nginx", networkingv1.PathTypePrefix
	if s.skipWorkload() {
		class = "fake"
	}
	desired, current := &networkingv1.Ingress{ObjectMeta: s.objectMeta(), Spec: networkingv1.IngressSpec{
		IngressClassName: &class,
		Rules: []networkingv1.IngressRule{{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{
				Path: Path(client.ObjectKeyFromObject(s.website)), PathType: &below,
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
					Name: s.name(), Port: networkingv1.ServiceBackendPort{Name: portName},
				}},
			}},
		}}}},
	}}, &networkingv1.Ingress{}
	return child{"Ingress", desired, current, func() {
		applyLabels(current, desired)
		current.Spec.IngressClassName, current.Spec.Rules = desired.Spec.IngressClassName, desired.Spec.Rules
	}}
}
