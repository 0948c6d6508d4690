package rings

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

var update = flag.Bool("update", false, "write testdata again")

func kindOf(group, kind string) catalog.Kind {
	return catalog.Kind{GroupKind: schema.GroupKind{Group: group, Kind: kind}, Namespaced: true}
}

func resourceOf(group, resource, kind string, controllers ...catalog.Kind) catalog.Resource {
	return catalog.Resource{
		Resource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, Kind: kindOf(group, kind), Controllers: controllers,
	}
}

// TestWebhookConfigurations compares whole configurations with testdata. Run it with -update to write that again, and
// review the difference: it changes what API servers do.
func TestWebhookConfigurations(t *testing.T) {
	const group = "webhosting.timebertt.dev"
	website, theme := kindOf(group, "Website"), kindOf(group, "Theme")
	url := "https://sharder.example.com/base/"
	for name, test := range map[string]struct {
		selector  *metav1.LabelSelector
		resources []catalog.Resource
		change    func(*configv1alpha1.WebhookConfig)
		authority string
	}{
		"main-only": {resources: []catalog.Resource{resourceOf("", "configmaps", "ConfigMap")}},
		"controlled": {
			authority: "bundle",
			resources: []catalog.Resource{
				resourceOf(group, "websites", "Website"),
				resourceOf("apps", "deployments", "Deployment", website),
				resourceOf("", "configmaps", "ConfigMap", website),
				resourceOf("", "services", "Service", website),
			},
			selector: &metav1.LabelSelector{
				MatchLabels:      map[string]string{"project": "true"},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"b", "c"}}},
			},
		},
		"several-controllers": {
			resources: []catalog.Resource{
				resourceOf(group, "websites", "Website"),
				resourceOf(group, "themes", "Theme"),
				resourceOf("", "secrets", "Secret"),
				resourceOf("", "configmaps", "ConfigMap", website, theme),
				resourceOf("", "services", "Service", website),
				resourceOf("apps", "deployments", "Deployment", kindOf("", "Secret")),
			},
			change: func(config *configv1alpha1.WebhookConfig) {
				config.ClientConfig = &admissionregistrationv1.WebhookClientConfig{URL: &url}
				config.Annotations = map[string]string{"cert-manager.io/inject-ca-from": "sharding-system/sharder"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := &configv1alpha1.SharderConfig{}
			configv1alpha1.SetDefaults(config)
			if test.change != nil {
				test.change(&config.Webhook.Config)
			}
			ring := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: "example", UID: "42"}}
			ring.Spec.NamespaceSelector = test.selector
			got, err := yaml.Marshal(webhookConfiguration(ring, test.resources, config.Webhook.Config, []byte(test.authority)))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
