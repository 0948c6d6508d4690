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

// Labels of the objects of a Website.
const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelManagedBy = "app.kubernetes.io/managed-by"
	manager        = "webhosting-operator"
)

const kindWebsite = "Website"

// managed is on every object that this operator makes. It keeps the rest of the cluster out of its caches.
var managed = map[string]string{labelManagedBy: manager}

// keys of the ConfigMap, which are files in the pod.
const (
	keyPage  = "index.html"
	keyNginx = "nginx.conf"
)

// annotationChecksum on the pods changes with the page, so that a new page means new pods. Without it the
// kubelet would bring the page into the running pod too, but some time within the next minute or two, and
// nobody could say when all of it is served.
const annotationChecksum = "webhosting.timebertt.dev/checksum"

// child is an object of a Website: as it is wanted, and as it was found.
type child struct {
	kind        string
	want, found client.Object
	// settle gives the found object all that the wanted one says. What it says nothing about is the
	// business of others, such as fields that the API server fills in.
	settle func()
}

// site is all that the objects of a Website are made of.
type site struct {
	website *webhostingv1alpha1.Website
	html    string
	image   string
}

// children are the objects of a Website, in the order in which they are needed.
func (s site) children() []child {
	return []child{s.configMap(), s.deployment(), s.service(), s.ingress()}
}

func (s site) name() string { return ServerName(client.ObjectKeyFromObject(s.website)) }

// skipped tells whether the Website is there for a load test, and nobody wants to look at it.
func (s site) skipped() bool {
	_, skipped := s.website.Labels[webhostingv1alpha1.LabelSkipWorkload]
	return skipped
}

// selector is what the pods of a Website have.
func (s site) selector() map[string]string {
	return map[string]string{labelName: "website", labelInstance: s.name()}
}

func (s site) meta() metav1.ObjectMeta {
	labels := s.selector()
	maps.Copy(labels, managed)
	controller := metav1.NewControllerRef(s.website, webhostingv1alpha1.SchemeGroupVersion.WithKind(kindWebsite))
	return metav1.ObjectMeta{
		Namespace: s.website.Namespace, Name: s.name(), Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*controller},
	}
}

// settleMeta gives an object our labels and leaves the others to whom they are from, such as a sharder.
func settleMeta(found, want metav1.Object) {
	labels := found.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, want.GetLabels())
	found.SetLabels(labels)
}

func (s site) data() map[string]string {
	return map[string]string{keyPage: s.html, keyNginx: nginxConfig}
}

// checksum is of all that a pod has to be started anew for.
func (s site) checksum() string {
	const digits = 16
	sum := sha256.Sum256([]byte(s.html + "\x00" + nginxConfig))
	return hex.EncodeToString(sum[:])[:digits]
}

func (s site) configMap() child {
	want, found := &corev1.ConfigMap{ObjectMeta: s.meta(), Data: s.data()}, &corev1.ConfigMap{}
	return child{"ConfigMap", want, found, func() {
		settleMeta(found, want)
		found.Data, found.BinaryData = want.Data, nil
	}}
}

func (s site) service() child {
	want, found := &corev1.Service{ObjectMeta: s.meta(), Spec: corev1.ServiceSpec{
		Type:     corev1.ServiceTypeClusterIP,
		Selector: s.selector(),
		Ports:    []corev1.ServicePort{{Name: portName, Port: port, TargetPort: targetPort, Protocol: corev1.ProtocolTCP}},
	}}, &corev1.Service{}
	return child{"Service", want, found, func() {
		settleMeta(found, want)
		found.Spec.Type, found.Spec.Selector, found.Spec.Ports = want.Spec.Type, want.Spec.Selector, want.Spec.Ports
		found.Spec.ExternalName = ""
	}}
}

func (s site) ingress() child {
	class, below := "nginx", networkingv1.PathTypePrefix
	if s.skipped() {
		class = "fake"
	}
	want, found := &networkingv1.Ingress{ObjectMeta: s.meta(), Spec: networkingv1.IngressSpec{
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
	return child{"Ingress", want, found, func() {
		settleMeta(found, want)
		found.Spec.IngressClassName, found.Spec.Rules = want.Spec.IngressClassName, want.Spec.Rules
	}}
}
