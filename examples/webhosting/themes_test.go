package main

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestThemeChanges changes a Theme, and expects that only the Websites that use it are reconciled.
func TestThemeChanges(t *testing.T) {
	const n = 5
	f := setUp(t, rig.Shared(t))
	o := f.start()
	exciting := f.theme("exciting", "darkcyan")
	f.theme("quiet", "white")
	var users, others []*webhostingv1alpha1.Website
	for i := range n {
		users = append(users, f.website(fmt.Sprintf("user-%d", i), "exciting", withoutWorkload))
		others = append(others, f.website(fmt.Sprintf("other-%d", i), "quiet", withoutWorkload))
	}
	all := append(append([]*webhostingv1alpha1.Website{}, users...), others...)
	for _, site := range all {
		f.waitForReady(site)
	}
	f.waitUntilIdle(o, all...)
	checksums := map[string]string{}
	for _, site := range users {
		checksums[site.Name] = f.checksum(f, site)
	}

	o.reconcileLog.reset()
	change(f, exciting, func(theme *webhostingv1alpha1.Theme) { theme.Spec.Color = "#ff0055" })
	for _, site := range users {
		f.Eventually(func(g Gomega) {
			b := f.children(g, site)
			g.Expect(b.page.Data["index.html"]).To(ContainSubstring("background-color: #ff0055"))
			g.Expect(f.checksum(g, site)).NotTo(Equal(checksums[site.Name]), "a new checksum triggers a rollout")
		}).Should(Succeed())
	}
	for name := range o.reconciled() {
		f.Expect(name).To(HavePrefix("user-"))
	}

	t.Log("A Website that changes its Theme is reconciled for the new one only")
	change(f, users[0], func(w *webhostingv1alpha1.Website) { w.Spec.Theme = f.Namespace + ".quiet" })
	f.Eventually(func(g Gomega) string { return f.children(g, users[0]).page.Data["index.html"] }).Should(ContainSubstring("background-color: white"))
	f.waitUntilIdle(o, all...)
	o.reconcileLog.reset()
	change(f, exciting, func(theme *webhostingv1alpha1.Theme) { theme.Spec.Color = "red" })
	f.Eventually(func() map[string]int { return o.reconciled() }).Should(HaveKey("user-1"))
	for _, site := range users[1:] {
		f.Eventually(func(g Gomega) string { return f.children(g, site).page.Data["index.html"] }).Should(ContainSubstring("background-color: red"))
	}
	f.Expect(o.reconciled()).NotTo(HaveKey("user-0"))
	f.Expect(o.failures()).To(BeEmpty())
}

func (f *fixture) checksum(g Gomega, site *webhostingv1alpha1.Website) string {
	return f.children(g, site).workload.Spec.Template.Annotations["webhosting.timebertt.dev/checksum"]
}

// TestMissingTheme creates a Website before its Theme, and then deletes the Theme.
func TestMissingTheme(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	site := f.website("homepage", "exciting", withoutWorkload)
	f.waitForPhase(site, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonThemeNotFound)
	f.Expect(meta.IsStatusConditionFalse(site.Status.Conditions, webhostingv1alpha1.ConditionThemeFound)).To(BeTrue())
	f.waitForEvent(site, webhostingv1alpha1.ReasonThemeNotFound)

	theme := f.theme("exciting", "darkcyan")
	f.waitForReady(site)
	f.Expect(meta.IsStatusConditionTrue(site.Status.Conditions, webhostingv1alpha1.ConditionThemeFound)).To(BeTrue())
	f.waitForEvent(site, webhostingv1alpha1.ReasonWorkloadSkipped)

	f.Expect(f.Client.Delete(t.Context(), theme)).To(Succeed())
	f.waitForPhase(site, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonThemeNotFound)
	f.Expect(f.children(f, site).page.Data["index.html"]).To(ContainSubstring("darkcyan"), "the page is still served")

	f.theme("exciting", "white")
	f.waitForReady(site)
	f.Expect(f.children(f, site).page.Data["index.html"]).To(ContainSubstring("white"))
	f.Expect(o.failures()).To(BeEmpty(), "a missing Theme causes no retries")
}

// waitForEvent waits for an event about a Website.
func (f *fixture) waitForEvent(site *webhostingv1alpha1.Website, reason string) {
	f.t.Helper()
	f.Eventually(func(g Gomega) []string {
		all, err := f.Clientset.EventsV1().Events(f.Namespace).List(f.t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		var reasons []string
		for _, event := range all.Items {
			if event.Regarding.UID == site.UID {
				reasons = append(reasons, event.Reason)
			}
		}
		return reasons
	}).Should(ContainElement(reason))
}
