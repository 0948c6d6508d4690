package main

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestServed follows a Website from its beginning until it is served.
func TestServed(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting")
	f.phase(site, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing)

	b := f.belongings(f, site)
	for kind, object := range b.all() {
		f.Expect(metav1.IsControlledBy(object, site)).To(BeTrue(), kind)
	}
	f.Expect(b.page.Data["index.html"]).To(And(ContainSubstring("background-color: darkcyan"), ContainSubstring("homepage"), ContainSubstring(b.serverName)))
	f.Expect(*b.workload.Spec.Replicas).To(BeEquivalentTo(1))
	f.Expect(b.service.Spec.Selector).To(Equal(b.workload.Spec.Template.Labels))
	f.Expect(*b.ingress.Spec.IngressClassName).To(Equal("nginx"))
	path := b.ingress.Spec.Rules[0].HTTP.Paths[0]
	f.Expect(path.Path).To(Equal("/" + f.Namespace + "/homepage"))
	f.Expect(path.Backend.Service.Name).To(Equal(b.serverName))

	t.Log("Its phase is what the Deployment says")
	f.rollOut(b)
	f.phase(site, webhostingv1alpha1.PhaseReady, webhostingv1alpha1.ReasonServed)
	f.rollOut(b, func(status *appsv1.DeploymentStatus) {
		status.AvailableReplicas = 0
		status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: "False", Reason: "ProgressDeadlineExceeded"}}
	})
	f.phase(site, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonWorkloadFailed)
	f.rollOut(b)
	f.phase(site, webhostingv1alpha1.PhaseReady, webhostingv1alpha1.ReasonServed)
}

// TestLoad is about Websites of load tests: no pods, and no Ingress controller takes notice.
func TestLoad(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", light)
	f.ready(site)
	b := f.belongings(f, site)
	f.Expect(*b.workload.Spec.Replicas).To(BeZero())
	f.Expect(*b.ingress.Spec.IngressClassName).To(Equal("fake"))

	t.Log("The label can come and go")
	change(f, site, func(w *webhostingv1alpha1.Website) { w.Labels = nil })
	f.phase(site, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing)
	b = f.belongings(f, site)
	f.Expect(*b.workload.Spec.Replicas).To(BeEquivalentTo(1))
	f.Expect(*b.ingress.Spec.IngressClassName).To(Equal("nginx"))
}

// TestIdle looks whether a reconcile that finds everything in order leaves it at that.
func TestIdle(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	f.theme("exciting", "darkcyan")
	pods, none, broken := f.website("pods", "exciting"), f.website("none", "exciting", light), f.website("broken", "missing")
	f.phase(pods, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing)
	f.rollOut(f.belongings(f, pods))
	f.phase(pods, webhostingv1alpha1.PhaseReady, webhostingv1alpha1.ReasonServed)
	f.ready(none)
	f.phase(broken, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonThemeNotFound)
	f.calm(o, pods, none, broken)

	o.history.forget()
	o.wire.forget()
	for range 3 {
		before := o.reconciled()
		for _, site := range []*webhostingv1alpha1.Website{pods, none, broken} {
			f.poke(site)
			f.Eventually(func() int { return o.reconciled()[site.Name] }).Should(BeNumerically(">", before[site.Name]))
		}
	}
	f.Expect(o.writes()).To(BeEmpty())
	f.Expect(o.reads()).To(BeEmpty(), "everything is in the caches")
	f.Expect(o.failures()).To(BeEmpty())
	f.Expect(o.reconciled()).To(Equal(map[string]int{"pods": 3, "none": 3, "broken": 3}), "nothing was done without a reason")
}
