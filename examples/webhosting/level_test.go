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

// TestWhileNobodyLooks changes everything while no operator runs. The next one sees no change happen, and
// puts all right.
func TestWhileNobodyLooks(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	before := f.start()
	theme, lost := f.theme("exciting", "darkcyan"), f.theme("lost", "darkcyan")
	changed, spoilt, orphan := f.website("changed", "exciting"), f.website("spoilt", "exciting", light), f.website("orphan", "lost", light)
	gone := f.website("gone", "exciting", light)
	f.phase(changed, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing)
	for _, site := range []*webhostingv1alpha1.Website{spoilt, orphan, gone} {
		f.ready(site)
	}
	f.calm(before, changed, spoilt, orphan, gone)
	before.stop()

	change(f, theme, func(theme *webhostingv1alpha1.Theme) { theme.Spec.Color = "red" })
	f.Expect(f.Client.Delete(t.Context(), lost)).To(Succeed())
	f.rollOut(f.belongings(f, changed))
	b := f.belongings(f, spoilt)
	f.Expect(f.Client.Delete(t.Context(), b.service)).To(Succeed())
	b.page.Data = nil
	f.Expect(f.Client.Update(t.Context(), b.page)).To(Succeed())
	f.Expect(f.Client.Delete(t.Context(), gone)).To(Succeed())
	fresh := f.website("fresh", "exciting", light)

	after := f.start()
	f.ready(fresh)
	f.phase(orphan, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonThemeNotFound)
	for _, site := range []*webhostingv1alpha1.Website{changed, spoilt} {
		f.Eventually(func(g Gomega) string { return f.belongings(g, site).page.Data["index.html"] }).Should(ContainSubstring("background-color: red"), site.Name)
	}
	f.ready(spoilt)
	f.rollOut(f.belongings(f, changed)) // of the new page
	f.phase(changed, webhostingv1alpha1.PhaseReady, webhostingv1alpha1.ReasonServed)
	f.Expect(after.failures()).To(BeEmpty())
	err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(gone), gone)
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}

// TestAnyOrder makes a Website and its Theme in both orders, and something of a Website that is not there
// yet. Watches of different kinds know no order either.
func TestAnyOrder(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	early := newBelongings(&webhostingv1alpha1.Website{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "first"}}).page
	early.Labels = map[string]string{"app.kubernetes.io/managed-by": "webhosting-operator"}
	early.OwnerReferences = owner("webhosting.timebertt.dev/v1alpha1", "Website", "first", true)
	f.Expect(f.Client.Create(t.Context(), early)).To(Succeed())
	f.Eventually(o.reconciled).Should(HaveKey("first"), "its owner is looked at, and is not there")
	f.Expect(f.Client.Delete(t.Context(), early)).To(Succeed())

	first := f.website("first", "exciting", light)
	f.theme("exciting", "darkcyan")
	second := f.website("second", "exciting", light)
	var pages []string
	for _, site := range []*webhostingv1alpha1.Website{first, second} {
		f.ready(site)
		pages = append(pages, f.belongings(f, site).page.Data["nginx.conf"])
	}
	f.Expect(slices.Compact(pages)).To(HaveLen(1))
	f.calm(o, first, second)
	f.Expect(o.failures()).To(BeEmpty())
}

// TestObservedGeneration changes a Website again and again. Its status always says which version it is
// about.
func TestObservedGeneration(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	f.theme("exciting", "darkcyan")
	f.theme("calm", "white")
	site := f.website("homepage", "exciting", light)
	f.ready(site)
	since := site.Status.LastTransitionTime
	f.Expect(since).NotTo(BeNil())

	f.poke(site)
	f.calm(o, site)
	f.Expect(now(f, site).Status.LastTransitionTime).To(Equal(since), "an annotation is no new version")

	for _, theme := range []string{"calm", "missing", "exciting"} {
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
		f.Expect(site.Status.LastTransitionTime.Time).To(BeTemporally(">", since.Time), "also if the phase is the same")
		since = site.Status.LastTransitionTime
	}
}

// TestTwoAtOnce lets two operators work on the same Websites, which no election can rule out for ever.
func TestTwoAtOnce(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	one, two := f.start(), f.start()
	theme := f.theme("exciting", "darkcyan")
	var sites []*webhostingv1alpha1.Website
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		sites = append(sites, f.website(name, "exciting", light))
	}
	for _, site := range sites {
		f.ready(site)
	}
	change(f, theme, func(theme *webhostingv1alpha1.Theme) { theme.Spec.Color = "red" })
	for _, site := range sites {
		f.Eventually(func(g Gomega) string { return f.belongings(g, site).page.Data["index.html"] }).Should(ContainSubstring("background-color: red"))
	}
	f.calm(one, sites...)
	f.calm(two, sites...)
	f.Expect(one.failures()).To(BeEmpty())
	f.Expect(two.failures()).To(BeEmpty())
}
