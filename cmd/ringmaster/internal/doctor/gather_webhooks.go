package doctor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

func (g *gatherer) webhooks(ctx context.Context) ([]admissionregistrationv1.MutatingWebhookConfiguration, error) {
	selector := metav1.ListOptions{LabelSelector: shardingv1alpha1.LabelControllerRing}
	return pages(ctx, selector, func(ctx context.Context, options metav1.ListOptions) ([]admissionregistrationv1.MutatingWebhookConfiguration, string, error) {
		list, err := g.core.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		return list.Items, list.Continue, nil
	})
}

// injectCA is the annotation with which cert-manager writes the CA bundle of a webhook configuration.
const injectCA = "cert-manager.io/inject-ca-from"

// readCertificate reads the serving certificate. Most users may not read Secrets, which is fine.
func (g *gatherer) readCertificate(ctx context.Context, f *Facts) {
	f.CertificateSecret = ownCertificate
	for i := range f.Webhooks.Value {
		if f.Webhooks.Value[i].Annotations[injectCA] != "" {
			f.CertificateSecret = certManagerCertificate
		}
	}
	f.Certificate = read(ctx, func(ctx context.Context) ([]byte, error) {
		secret, err := g.core.CoreV1().Secrets(g.SharderNamespace).Get(ctx, f.CertificateSecret, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return secret.Data[corev1.TLSCertKey], nil
	})
}

// services reads the Services that the webhooks of rings refer to, each once.
func (g *gatherer) services(ctx context.Context, f *Facts, rings []*ring) map[types.NamespacedName]*ServiceFacts {
	found := map[types.NamespacedName]*ServiceFacts{}
	var reads []func()
	for _, r := range rings {
		webhook := f.webhookOf(r.name)
		if webhook == nil || webhook.ClientConfig.Service == nil {
			continue
		}
		key := types.NamespacedName{Namespace: webhook.ClientConfig.Service.Namespace, Name: webhook.ClientConfig.Service.Name}
		if found[key] != nil {
			continue
		}
		facts := &ServiceFacts{}
		found[key] = facts
		reads = append(reads, func() {
			facts.Service = read(ctx, func(ctx context.Context) (*corev1.Service, error) {
				service, err := g.core.CoreV1().Services(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil, nil
				}
				return service, err
			})
			facts.Ready = read(ctx, func(ctx context.Context) (int, error) { return g.readyEndpoints(ctx, key) })
		})
	}
	g.all(reads...)
	return found
}

func (g *gatherer) readyEndpoints(ctx context.Context, service types.NamespacedName) (ready int, err error) {
	slices, err := g.core.DiscoveryV1().EndpointSlices(service.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service.Name})
	if err != nil {
		return 0, err
	}
	for i := range slices.Items {
		for j := range slices.Items[i].Endpoints {
			if condition := slices.Items[i].Endpoints[j].Conditions.Ready; condition == nil || *condition {
				ready++
			}
		}
	}
	return ready, nil
}

const (
	// A probe is repeated, because a webhook with a timeout of 1 s sometimes fails on a busy cluster.
	probeAttempts, probeRetryAfter = 3, 300 * time.Millisecond
	// maxProbes bounds the dry-run creates. All rings have the same sharder.
	maxProbes = 20
)

// probes creates an object for each ring with available shards, without storing it, and looks whether the
// webhook has labelled it.
func (g *gatherer) probes(ctx context.Context, f *Facts, rings []*ring) map[string]Probe {
	found := map[string]Probe{}
	var mu sync.Mutex
	var calls []func()
	for _, r := range rings {
		// Without shards, the webhook labels nothing.
		if !g.Probe || r.declared == nil || f.webhookOf(r.name) == nil || len(r.available()) == 0 ||
			r.declared.Status.AvailableShards == 0 || len(calls) == maxProbes {
			continue
		}
		object, resource := r.probeObject(f)
		if object == nil {
			continue
		}
		calls = append(calls, func() {
			probe := g.probe(ctx, r.name, object, resource)
			mu.Lock()
			defer mu.Unlock()
			found[r.name] = probe
		})
	}
	g.all(calls...)
	return found
}

func (g *gatherer) probe(ctx context.Context, ring string, object *unstructured.Unstructured, resource schema.GroupVersionResource) Probe {
	probe := Probe{Object: fmt.Sprintf("%s/%s/%s", resource.Resource, object.GetNamespace(), object.GetName())}
	var client dynamic.ResourceInterface = g.dynamic.Resource(resource)
	if object.GetNamespace() != "" {
		client = g.dynamic.Resource(resource).Namespace(object.GetNamespace())
	}
	for attempt := range probeAttempts {
		if attempt > 0 {
			select {
			case <-time.After(probeRetryAfter):
			case <-ctx.Done():
			}
		}
		created, err := client.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			probe.Err = explain(ctx, err)
			return probe
		}
		if probe.Labelled = created.GetLabels()[shardingv1alpha1.LabelShard(ring)] != ""; probe.Labelled {
			break
		}
	}
	return probe
}

// probeObject returns an object that the webhook of the ring should label, and its resource, or nil. It is
// of a kind whose minimal spec is known, if the ring has one: another may be invalid, which says nothing.
func (r *ring) probeObject(f *Facts) (*unstructured.Unstructured, schema.GroupVersionResource) {
	selector, err := r.selector(f)
	if err != nil || !f.Namespaces.known() || !f.Served.known() {
		return nil, schema.GroupVersionResource{}
	}
	namespaces := f.selected(selector)
	var best *unstructured.Unstructured
	var bestResource schema.GroupVersionResource
	bestValidity := -1
	for i := range r.declared.Spec.Resources {
		main := &r.declared.Spec.Resources[i]
		kind, served := f.Served.Value.Resources[groupResource(main.GroupResource)]
		for _, candidate := range append([]shardingv1alpha1.GroupResource{main.GroupResource}, main.ControlledResources...) {
			resource := groupResource(candidate)
			known, candidateServed := f.Served.Value.Resources[resource]
			validity := validityOf(resource)
			if !served || !candidateServed || known.Namespaced && len(namespaces) == 0 ||
				validity <= bestValidity || validity == validityUnknown && candidate != main.GroupResource {
				continue
			}
			best, bestValidity = newProbeObject(resource, known, namespaces), validity
			bestResource = known.GroupVersion().WithResource(resource.Resource)
			if candidate != main.GroupResource {
				best.SetOwnerReferences([]metav1.OwnerReference{{
					APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: best.GetName(), UID: uuid.NewUUID(), Controller: new(true),
				}})
			}
		}
	}
	return best, bestResource
}

func newProbeObject(resource schema.GroupResource, kind ServedResource, namespaces []string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind.GroupVersionKind)
	object.SetName("ringmaster-doctor-" + string(uuid.NewUUID())[:8])
	if kind.Namespaced {
		object.SetNamespace(preferred(namespaces))
	}
	if spec := minimalSpecs[resource]; spec != nil {
		object.Object["spec"] = runtime.DeepCopyJSON(spec)
	}
	return object
}

// preferred returns the first namespace that is not one of Kubernetes itself, if there is one.
func preferred(namespaces []string) string {
	for _, name := range namespaces {
		if !strings.HasPrefix(name, "kube-") {
			return name
		}
	}
	return namespaces[0]
}
