package doctor

import (
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// webhookOf returns the webhook of a ring, or nil.
func (f *Facts) webhookOf(ring string) *admissionregistrationv1.MutatingWebhook {
	for i := range f.Webhooks.Value {
		configuration := &f.Webhooks.Value[i]
		if configuration.Name != shardingv1alpha1.WebhookConfigurationName(ring) {
			continue
		}
		for j := range configuration.Webhooks {
			if configuration.Webhooks[j].Name == shardingv1alpha1.WebhookName {
				return &configuration.Webhooks[j]
			}
		}
	}
	return nil
}

// evaluateWebhooks judges the webhook of each ring, and the way to it.
func evaluateWebhooks(f *Facts, rings []*ring) *Check {
	c := &Check{Name: checkWebhooks}
	if !f.Webhooks.known() {
		c.unreadable("MutatingWebhookConfigurations", f.Webhooks.Err)
		return c
	}
	if !f.Rings.known() {
		c.unreadable("ControllerRings", f.Rings.Err)
		return c
	}
	evaluateStale(c, f)
	count, answered := 0, 0
	for _, r := range rings {
		if r.declared == nil || len(r.declared.Spec.Resources) == 0 {
			continue
		}
		webhook := f.webhookOf(r.name)
		if webhook == nil && r.inProcessLeads(f.Now) != nil && !f.externalLeads() {
			continue // the in-process sharder needs none, and the ControllerRing is unused
		}
		count++
		if webhook == nil {
			c.add(Finding{
				Reason: WebhookMissing, Status: Failure, Ring: r.name,
				Object: "MutatingWebhookConfiguration/" + shardingv1alpha1.WebhookConfigurationName(r.name),
				Cause:  "not found, so new objects wait for the next resync of the sharder before they are reconciled",
				Next:   "check that the sharder runs, and read the condition Ready: kubectl describe controllerring " + r.name,
			})
			continue
		}
		evaluateWebhook(c, f, r, webhook)
		if f.Probes[r.name].Labelled {
			answered++
		}
	}
	if count == 0 {
		return c.message("no ring needs one")
	}
	return c.message("%s; %d answered a dry-run create%s", prose.Count(count, "webhook"), answered, certificateNote(f))
}

// certificateNote says that the certificate itself was not checked, which most users may not read.
func certificateNote(f *Facts) string {
	if f.Certificate.known() && len(f.Certificate.Value) > 0 {
		return ""
	}
	return "; the serving certificate could not be read"
}

// evaluateStale finds webhook configurations of rings that do not exist.
func evaluateStale(c *Check, f *Facts) {
	for i := range f.Webhooks.Value {
		configuration := &f.Webhooks.Value[i]
		name := configuration.Labels[shardingv1alpha1.LabelControllerRing]
		if !f.selects(name) || slices.ContainsFunc(f.Rings.Value, func(r shardingv1alpha1.ControllerRing) bool { return r.Name == name }) {
			continue
		}
		c.add(Finding{
			Reason: WebhookStale, Status: Warning, Ring: name, Object: "MutatingWebhookConfiguration/" + configuration.Name,
			Cause: fmt.Sprintf("the ControllerRing %s does not exist: API servers still call the sharder for its resources, and wait for a timeout while it is down", name),
			Next:  "kubectl delete mutatingwebhookconfiguration " + configuration.Name,
		})
	}
}

func evaluateWebhook(c *Check, f *Facts, r *ring, webhook *admissionregistrationv1.MutatingWebhook) {
	object := "MutatingWebhookConfiguration/" + shardingv1alpha1.WebhookConfigurationName(r.name)
	before := len(c.Findings)
	if service := webhook.ClientConfig.Service; service != nil {
		evaluateService(c, f, r.name, service)
	}
	evaluateAuthority(c, f, r.name, object, &webhook.ClientConfig)
	probe, probed := f.Probes[r.name]
	switch {
	case !probed, probe.Labelled, len(c.Findings) > before:
	case probe.Err != nil:
		c.add(notProbed(r.name, object, probe))
	default:
		c.add(Finding{
			Reason: WebhookUnreachable, Status: Failure, Ring: r.name, Object: object,
			Cause: fmt.Sprintf("a dry-run create of %s got no shard: the API server does not reach the webhook, or does not trust its certificate, "+
				"so new objects wait for the next resync and each create waits for the timeout of the webhook", probe.Object),
			Next: "check the network between the API server and the sharder (NetworkPolicy, firewall, port 9443), and look in the API server's log for " +
				shardingv1alpha1.WebhookName,
		})
	}
}

// notProbed reports that the object of a probe could not be created.
func notProbed(ring, object string, probe Probe) Finding {
	next := "create an object of the ring, and check that it gets the label " + shardingv1alpha1.LabelShard(ring)
	switch {
	case apierrors.IsForbidden(probe.Err):
		next = "run the command as a user who may create this object"
	case errors.Is(probe.Err, errTimeout):
		next = "run the command again with a longer --timeout"
	}
	return Finding{
		Reason: WebhookNotProbed, Status: Unknown, Ring: ring, Object: object,
		Cause: fmt.Sprintf("could not be probed: a dry-run create of %s failed: %v", probe.Object, probe.Err),
		Next:  next + ", or skip the probe with --probe=false",
	}
}

// evaluateService judges the Service that API servers call.
func evaluateService(c *Check, f *Facts, ring string, reference *admissionregistrationv1.ServiceReference) {
	key := types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}
	object := "Service/" + key.String()
	service := f.Services[key]
	if service == nil {
		return
	}
	port := ptr.Deref(reference.Port, 443)
	switch {
	case !service.Service.known():
		c.unreadable(object, service.Service.Err)
		return
	case service.Service.Value == nil, !hasPort(service.Service.Value, port):
		cause := "not found"
		if service.Service.Value != nil {
			cause = fmt.Sprintf("has no port %d", port)
		}
		c.add(Finding{
			Reason: WebhookServiceMissing, Status: Failure, Ring: ring, Object: object,
			Cause: cause + ", but the webhook configuration of the ring refers to it: API servers do not reach the sharder",
			Next:  "kubectl apply -k config/default, or correct webhook.config.clientConfig in the configuration of the sharder",
		})
		return
	}
	switch {
	case !service.Ready.known():
		c.unreadable("EndpointSlices of "+object, service.Ready.Err)
	case service.Ready.Value == 0:
		c.add(Finding{
			Reason: WebhookNotReady, Status: Failure, Ring: ring, Object: object,
			Cause: "has no ready endpoint: no pod of the sharder is ready, or the selector of the Service matches none",
			Next:  fmt.Sprintf("kubectl -n %s get pods,endpointslices, then describe the pods that are not ready", key.Namespace),
		})
	}
}

func hasPort(service *corev1.Service, port int32) bool {
	return slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
}
