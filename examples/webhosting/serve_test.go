package main

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestStatusFollowsDeployment creates a Website, and sets the status of its Deployment.
func TestStatusFollowsDeployment(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting")
	f.waitForPhase(site, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing)

	b := f.children(f, site)
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

	t.Log("The phase follows the status of the Deployment")
	f.setDeploymentStatus(b)
	f.waitForPhase(site, webhostingv1alpha1.PhaseReady, webhostingv1alpha1.ReasonServed)
	f.setDeploymentStatus(b, func(status *appsv1.DeploymentStatus) {
		status.AvailableReplicas = 0
		status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: "False", Reason: "ProgressDeadlineExceeded"}}
	})
	f.waitForPhase(site, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonWorkloadFailed)
	f.setDeploymentStatus(b)
	f.waitForPhase(site, webhostingv1alpha1.PhaseReady, webhostingv1alpha1.ReasonServed)
}

// TestSkipWorkloadLabel adds and removes the label for load tests.
func TestSkipWorkloadLabel(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", withoutWorkload)
	f.waitForReady(site)
	b := f.children(f, site)
	f.Expect(*b.workload.Spec.Replicas).To(BeZero())
	f.Expect(*b.ingress.Spec.IngressClassName).To(Equal("fake"))

	t.Log("The label can be removed")
	change(f, site, func(w *webhostingv1alpha1.Website) { w.Labels = nil })
	f.waitForPhase(site, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing)
	b = f.children(f, site)
	f.Expect(*b.workload.Spec.Replicas).To(BeEquivalentTo(1))
	f.Expect(*b.ingress.Spec.IngressClassName).To(Equal("nginx"))
}

// TestNoWritesWithoutChange expects that a reconcile without differences reads from caches only,
// and writes nothing.
func TestNoWritesWithoutChange(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	f.theme("exciting", "darkcyan")
	pods, none, broken := f.website("pods", "exciting"), f.website("none", "exciting", withoutWorkload), f.website("broken", "missing")
	f.waitForPhase(pods, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing)
	f.setDeploymentStatus(f.children(f, pods))
	f.waitForPhase(pods, webhostingv1alpha1.PhaseReady, webhostingv1alpha1.ReasonServed)
	f.waitForReady(none)
	f.waitForPhase(broken, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonThemeNotFound)
	f.waitUntilIdle(o, pods, none, broken)

	o.reconcileLog.reset()
	o.transport.reset()
	for range 3 {
		before := o.reconciled()
		for _, site := range []*webhostingv1alpha1.Website{pods, none, broken} {
			f.requestReconcile(site)
			f.Eventually(func() int { return o.reconciled()[site.Name] }).Should(BeNumerically(">", before[site.Name]))
		}
	}
	f.Expect(o.writes()).To(BeEmpty())
	f.Expect(o.reads()).To(BeEmpty(), "all objects are in the caches")
	f.Expect(o.failures()).To(BeEmpty())
	f.Expect(o.reconciled()).To(Equal(map[string]int{"pods": 3, "none": 3, "broken": 3}), "no other reconciles")
}
