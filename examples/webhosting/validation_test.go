package main

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestObjectsOlderThanSchema creates Themes and Websites that the schema would reject. Their values
// must not get into a page, and a correction makes the Website ready.
func TestObjectsOlderThanSchema(t *testing.T) {
	f := setUp(t, rig.Private(t, rig.Options{CRDs: []string{"examples/webhosting/testdata/loose-crds.yaml"}}))
	o := f.start()
	const markup = "</style><script>alert(1)</script>"
	for name, spec := range map[string]webhostingv1alpha1.ThemeSpec{
		"color":    {Color: markup, FontFamily: "Menlo"},
		"font":     {Color: "red", FontFamily: "Menlo; } " + markup},
		"nothing":  {},
		"too-long": {Color: "red", FontFamily: strings.Repeat("a", 100_000)},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t, f.Rig)
			theme := &webhostingv1alpha1.Theme{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace + "." + name}, Spec: spec}
			f.Expect(f.Client.Create(t.Context(), theme)).To(Succeed())
			site := f.website(name, name, withoutWorkload)
			f.waitForPhase(site, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonThemeInvalid)
			f.Expect(meta.IsStatusConditionFalse(site.Status.Conditions, webhostingv1alpha1.ConditionThemeFound)).To(BeTrue())
			page := newChildren(site).page
			f.Expect(apierrors.IsNotFound(f.Client.Get(t.Context(), client.ObjectKeyFromObject(page), page))).To(BeTrue())

			theme.Spec = webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: "Menlo"}
			f.Expect(f.Client.Update(t.Context(), theme)).To(Succeed())
			f.waitForReady(site)
		})
	}
	t.Run("no theme", func(t *testing.T) {
		f := setUp(t, f.Rig)
		f.theme("exciting", "red")
		site := f.website("none", "exciting", withoutWorkload, func(w *webhostingv1alpha1.Website) { w.Spec.Theme = "../secret" })
		f.waitForPhase(site, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonInvalidSpec)
		change(f, site, func(w *webhostingv1alpha1.Website) { w.Spec.Theme = f.Namespace + ".exciting" })
		f.waitForReady(site)
	})
	f.Expect(o.failures()).To(BeEmpty(), "invalid objects cause no retries")
}
