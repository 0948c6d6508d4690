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

// TestThemeChanges rolls a Theme out to the Websites that use it, and to no others.
func TestThemeChanges(t *testing.T) {
	const n = 5
	f := setUp(t, rig.Shared(t))
	o := f.start()
	exciting := f.theme("exciting", "darkcyan")
	f.theme("calm", "white")
	var users, others []*webhostingv1alpha1.Website
	for i := range n {
		users = append(users, f.website(fmt.Sprintf("user-%d", i), "exciting", light))
		others = append(others, f.website(fmt.Sprintf("other-%d", i), "calm", light))
	}
	all := append(append([]*webhostingv1alpha1.Website{}, users...), others...)
	for _, site := range all {
		f.ready(site)
	}
	f.calm(o, all...)
	checksums := map[string]string{}
	for _, site := range users {
		checksums[site.Name] = f.checksum(f, site)
	}

	o.history.forget()
	change(f, exciting, func(theme *webhostingv1alpha1.Theme) { theme.Spec.Color = "#ff0055" })
	for _, site := range users {
		f.Eventually(func(g Gomega) {
			b := f.belongings(g, site)
			g.Expect(b.page.Data["index.html"]).To(ContainSubstring("background-color: #ff0055"))
			g.Expect(f.checksum(g, site)).NotTo(Equal(checksums[site.Name]), "so that there are new pods")
		}).Should(Succeed())
	}
	for name := range o.reconciled() {
		f.Expect(name).To(HavePrefix("user-"))
	}

	t.Log("A Website that changes its Theme looks like the new one, and is no more the old one's")
	change(f, users[0], func(w *webhostingv1alpha1.Website) { w.Spec.Theme = f.Namespace + ".calm" })
	f.Eventually(func(g Gomega) string { return f.belongings(g, users[0]).page.Data["index.html"] }).Should(ContainSubstring("background-color: white"))
	f.calm(o, all...)
	o.history.forget()
	change(f, exciting, func(theme *webhostingv1alpha1.Theme) { theme.Spec.Color = "red" })
	f.Eventually(func() map[string]int { return o.reconciled() }).Should(HaveKey("user-1"))
	for _, site := range users[1:] {
		f.Eventually(func(g Gomega) string { return f.belongings(g, site).page.Data["index.html"] }).Should(ContainSubstring("background-color: red"))
	}
	f.Expect(o.reconciled()).NotTo(HaveKey("user-0"))
	f.Expect(o.failures()).To(BeEmpty())
}

func (f *fixture) checksum(g Gomega, site *webhostingv1alpha1.Website) string {
	return f.belongings(g, site).workload.Spec.Template.Annotations["webhosting.timebertt.dev/checksum"]
}

// TestThemeIsMissing lets a Website wait for its Theme, and lose it again.
func TestThemeIsMissing(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	site := f.website("homepage", "exciting", light)
	f.phase(site, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonThemeNotFound)
	f.Expect(meta.IsStatusConditionFalse(site.Status.Conditions, webhostingv1alpha1.ConditionThemeFound)).To(BeTrue())
	f.told(site, webhostingv1alpha1.ReasonThemeNotFound)

	theme := f.theme("exciting", "darkcyan")
	f.ready(site)
	f.Expect(meta.IsStatusConditionTrue(site.Status.Conditions, webhostingv1alpha1.ConditionThemeFound)).To(BeTrue())
	f.told(site, webhostingv1alpha1.ReasonWorkloadSkipped)

	f.Expect(f.Client.Delete(t.Context(), theme)).To(Succeed())
	f.phase(site, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonThemeNotFound)
	f.Expect(f.belongings(f, site).page.Data["index.html"]).To(ContainSubstring("darkcyan"), "what is served stays")

	f.theme("exciting", "white")
	f.ready(site)
	f.Expect(f.belongings(f, site).page.Data["index.html"]).To(ContainSubstring("white"))
	f.Expect(o.failures()).To(BeEmpty(), "it is for people to put right, and not to be tried again and again")
}

// told waits for an event about a Website.
func (f *fixture) told(site *webhostingv1alpha1.Website, reason string) {
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
