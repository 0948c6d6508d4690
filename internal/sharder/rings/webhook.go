package rings

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionregistrationv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// webhookTimeout is the maximum number of seconds that a user's request waits for the sharder. It is the minimum
// that the API allows, because API servers call the webhooks of several rings one after the other.
const webhookTimeout = 1

// webhookConfiguration makes API servers call the sharder when objects of these resources are created or updated
// without a shard, and continue if the sharder does not answer.
func webhookConfiguration(ring *shardingv1alpha1.ControllerRing, resources []catalog.Resource, config configv1alpha1.WebhookConfig, authority []byte) *admissionregistrationv1ac.MutatingWebhookConfigurationApplyConfiguration {
	selector := ring.Spec.NamespaceSelector
	if selector == nil {
		selector = config.NamespaceSelector
	}
	webhook := admissionregistrationv1ac.MutatingWebhook().
		WithName(shardingv1alpha1.WebhookName).
		WithAdmissionReviewVersions("v1").
		WithClientConfig(clientConfig(config.ClientConfig, shardingv1alpha1.WebhookPath(ring.Name), authority)).
		WithRules(rules(resources)...).
		WithNamespaceSelector(selectorApplyConfiguration(selector)).
		WithObjectSelector(metav1ac.LabelSelector().WithMatchExpressions(
			metav1ac.LabelSelectorRequirement().
				WithKey(shardingv1alpha1.LabelShard(ring.Name)).
				WithOperator(metav1.LabelSelectorOpDoesNotExist),
		)).
		WithFailurePolicy(admissionregistrationv1.Ignore).
		WithSideEffects(admissionregistrationv1.SideEffectClassNone).
		WithTimeoutSeconds(webhookTimeout)
	if expression := matchExpression(resources); expression != "" {
		webhook.WithMatchConditions(admissionregistrationv1ac.MatchCondition().WithName(matchConditionName).WithExpression(expression))
	}
	return admissionregistrationv1ac.MutatingWebhookConfiguration(shardingv1alpha1.WebhookConfigurationName(ring.Name)).
		WithLabels(map[string]string{shardingv1alpha1.LabelControllerRing: ring.Name}).
		WithAnnotations(config.Annotations).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(shardingv1alpha1.SchemeGroupVersion.String()).
			WithKind("ControllerRing").
			WithName(ring.Name).
			WithUID(ring.UID).
			WithController(true)).
		WithWebhooks(webhook)
}

func rules(resources []catalog.Resource) []*admissionregistrationv1ac.RuleWithOperationsApplyConfiguration {
	all := make([]*admissionregistrationv1ac.RuleWithOperationsApplyConfiguration, len(resources))
	for i := range resources {
		resource := resources[i].Resource.GroupResource()
		all[i] = admissionregistrationv1ac.RuleWithOperations().
			WithOperations(admissionregistrationv1.Create, admissionregistrationv1.Update).
			WithAPIGroups(resource.Group).
			WithAPIVersions("*").
			WithResources(resource.Resource).
			WithScope(admissionregistrationv1.AllScopes)
	}
	return all
}

func clientConfig(config *admissionregistrationv1.WebhookClientConfig, path string, authority []byte) *admissionregistrationv1ac.WebhookClientConfigApplyConfiguration {
	applied := admissionregistrationv1ac.WebhookClientConfig()
	switch {
	case config.URL != nil:
		applied.WithURL(strings.TrimSuffix(*config.URL, "/") + path)
	case config.Service != nil:
		service := admissionregistrationv1ac.ServiceReference().
			WithNamespace(config.Service.Namespace).WithName(config.Service.Name).WithPath(path)
		if config.Service.Port != nil {
			service.WithPort(*config.Service.Port)
		}
		applied.WithService(service)
	}
	if len(config.CABundle) > 0 {
		authority = config.CABundle
	}
	if len(authority) > 0 {
		applied.WithCABundle(authority...)
	}
	return applied
}

func selectorApplyConfiguration(selector *metav1.LabelSelector) *metav1ac.LabelSelectorApplyConfiguration {
	applied := metav1ac.LabelSelector().WithMatchLabels(selector.MatchLabels)
	for _, expression := range selector.MatchExpressions {
		applied.WithMatchExpressions(metav1ac.LabelSelectorRequirement().
			WithKey(expression.Key).WithOperator(expression.Operator).WithValues(expression.Values...))
	}
	return applied
}
