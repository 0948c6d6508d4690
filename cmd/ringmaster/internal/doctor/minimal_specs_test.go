package doctor

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestMinimalSpecsAreValid creates each object with dry-run on a real API server.
func TestMinimalSpecsAreValid(t *testing.T) {
	r := rig.Shared(t)
	g, err := newGatherer(r.Config, Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	served, err := g.served(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Pods need it, and no controller creates it here.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: "default"}}
	if err := r.Client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	for resource := range minimalSpecs {
		t.Run(resource.String(), func(t *testing.T) {
			kind, found := served.Resources[resource]
			if !found {
				t.Fatal("the API server does not serve it")
			}
			client := g.dynamic.Resource(kind.GroupVersion().WithResource(resource.Resource)).Namespace(r.Namespace)
			object := newProbeObject(resource, kind, []string{r.Namespace})
			if _, err := client.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Error(err)
			}
		})
	}
}
