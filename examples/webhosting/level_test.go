package main

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestChangesWhileStopped changes objects while no operator runs, and expects the next one to
// reconcile them.
func TestChangesWhileStopped(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	before := f.start()
	theme, lost := f.theme("exciting", "darkcyan"), f.theme("deleted-theme", "darkcyan")
	changed, modified, orphan := f.website("changed", "exciting"), f.website("modified", "exciting", withoutWorkload), f.website("orphan", "deleted-theme", withoutWorkload)
	gone := f.website("gone", "exciting", withoutWorkload)
	f.waitForPhase(changed, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing)
	for _, site := range []*webhostingv1alpha1.Website{modified, orphan, gone} {
		f.waitForReady(site)
	}
	f.waitUntilIdle(before, changed, modified, orphan, gone)
	before.stop()

	change(f, theme, func(theme *webhostingv1alpha1.Theme) { theme.Spec.Color = "red" })
	f.Expect(f.Client.Delete(t.Context(), lost)).To(Succeed())
	f.setDeploymentStatus(f.children(f, changed))
	b := f.children(f, modified)
	f.Expect(f.Client.Delete(t.Context(), b.service)).To(Succeed())
	b.page.Data = nil
	f.Expect(f.Client.Update(t.Context(), b.page)).To(Succeed())
	f.Expect(f.Client.Delete(t.Context(), gone)).To(Succeed())
	fresh := f.website("fresh", "exciting", withoutWorkload)

	after := f.start()
	f.waitForReady(fresh)
	f.waitForPhase(orphan, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonThemeNotFound)
	for _, site := range []*webhostingv1alpha1.Website{changed, modified} {
		f.Eventually(func(g Gomega) string { return f.children(g, site).page.Data["index.html"] }).Should(ContainSubstring("background-color: red"), site.Name)
	}
	f.waitForReady(modified)
	f.setDeploymentStatus(f.children(f, changed)) // of the new page
	f.waitForPhase(changed, webhostingv1alpha1.PhaseReady, webhostingv1alpha1.ReasonServed)
	f.Expect(after.failures()).To(BeEmpty())
	err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(gone), gone)
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}

// TestEventsInAnyOrder creates a Website and its Theme in both orders, and a child of a Website
// that does not exist yet. Watches of different kinds are not ordered either.
func TestEventsInAnyOrder(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	early := newChildren(&webhostingv1alpha1.Website{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "first"}}).page
	early.Labels = map[string]string{"app.kubernetes.io/managed-by": "webhosting-operator"}
	early.OwnerReferences = owner("webhosting.timebertt.dev/v1alpha1", "Website", "first", true)
	f.Expect(f.Client.Create(t.Context(), early)).To(Succeed())
	f.Eventually(o.reconciled).Should(HaveKey("first"), "the missing owner is reconciled")
	f.Expect(f.Client.Delete(t.Context(), early)).To(Succeed())

	first := f.website("first", "exciting", withoutWorkload)
	f.theme("exciting", "darkcyan")
	second := f.website("second", "exciting", withoutWorkload)
	var pages []string
	for _, site := range []*webhostingv1alpha1.Website{first, second} {
		f.waitForReady(site)
		pages = append(pages, f.children(f, site).page.Data["nginx.conf"])
	}
	f.Expect(slices.Compact(pages)).To(HaveLen(1))
	f.waitUntilIdle(o, first, second)
	f.Expect(o.failures()).To(BeEmpty())
}

// TestObservedGeneration changes a Website several times, and expects the observed generation to
// follow.
func TestObservedGeneration(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	f.theme("exciting", "darkcyan")
	f.theme("quiet", "white")
	site := f.website("homepage", "exciting", withoutWorkload)
	f.waitForReady(site)
	since := site.Status.LastTransitionTime
	f.Expect(since).NotTo(BeNil())

	f.requestReconcile(site)
	f.waitUntilIdle(o, site)
	f.Expect(refresh(f, site).Status.LastTransitionTime).To(Equal(since), "an annotation does not change the generation")

	for _, theme := range []string{"quiet", "missing", "exciting"} {
		generation, phase := site.Generation, webhostingv1alpha1.PhaseReady
		change(f, site, func(w *webhostingv1alpha1.Website) { w.Spec.Theme = f.Namespace + "." + theme })
		f.Expect(site.Generation).To(BeNumerically(">", generation))
		if theme == "missing" {
			phase = webhostingv1alpha1.PhaseError
		}
		f.Eventually(func(g Gomega) {
			g.Expect(f.Client.Get(t.Context(), client.ObjectKeyFromObject(site), site)).To(Succeed())
			g.Expect(site.Status.ObservedGeneration).To(Equal(site.Generation))
			g.Expect(site.Status.Phase).To(Equal(phase))
		}).Should(Succeed())
		f.Expect(site.Status.LastTransitionTime.Time).To(BeTemporally(">", since.Time), "also if the phase stays the same")
		since = site.Status.LastTransitionTime
	}
}

// TestTwoOperatorsConverge runs two operators on the same Websites, which leader election cannot
// always prevent.
func TestTwoOperatorsConverge(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	one, two := f.start(), f.start()
	theme := f.theme("exciting", "darkcyan")
	var sites []*webhostingv1alpha1.Website
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		sites = append(sites, f.website(name, "exciting", withoutWorkload))
	}
	for _, site := range sites {
		f.waitForReady(site)
	}
	change(f, theme, func(theme *webhostingv1alpha1.Theme) { theme.Spec.Color = "red" })
	for _, site := range sites {
		f.Eventually(func(g Gomega) string { return f.children(g, site).page.Data["index.html"] }).Should(ContainSubstring("background-color: red"))
	}
	f.waitUntilIdle(one, sites...)
	f.waitUntilIdle(two, sites...)
	f.Expect(one.failures()).To(BeEmpty())
	f.Expect(two.failures()).To(BeEmpty())
}
