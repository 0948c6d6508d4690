package main

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestNameTaken puts objects of others where those of a Website should be.
func TestNameTaken(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	f.theme("exciting", "darkcyan")
	for name, test := range map[string]struct {
		site   string
		change func(*corev1.ConfigMap)
		says   string
	}{
		"nobody's": {"nobodys", func(*corev1.ConfigMap) {}, "nobody controls it"},
		"with our labels": {"labelled", func(c *corev1.ConfigMap) {
			c.Labels = map[string]string{"app.kubernetes.io/managed-by": "webhosting-operator"}
		}, "nobody controls it"},
		"somebody else's": {"elses", func(c *corev1.ConfigMap) { c.OwnerReferences = owner("v1", "Pod", "theirs", true) }, "Pod theirs controls it"},
		"another website's": {"another", func(c *corev1.ConfigMap) {
			c.OwnerReferences = owner("webhosting.timebertt.dev/v1alpha1", "Website", "other", true)
		}, "Website other controls it"},
		"ours, but not to control": {"shared", func(c *corev1.ConfigMap) {
			c.OwnerReferences = owner("webhosting.timebertt.dev/v1alpha1", "Website", "shared", false)
		}, "nobody controls it"},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t, f.Rig)
			site := &webhostingv1alpha1.Website{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: test.site}}
			foreign := newBelongings(site).page
			foreign.Data = map[string]string{"index.html": "theirs"}
			test.change(foreign)
			f.Expect(f.Client.Create(t.Context(), foreign)).To(Succeed())
			before := foreign.ResourceVersion

			site = f.website(test.site, "exciting", light)
			f.phase(site, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonNameTaken)
			f.Expect(site.Status.Conditions[0].Message).To(And(ContainSubstring("ConfigMap "+foreign.Name), ContainSubstring(test.says)))
			f.calmly(o, site)
			f.Expect(now(f, foreign).ResourceVersion).To(Equal(before), "it is left alone")

			t.Log("It goes on by itself when the name is free")
			f.Expect(f.Client.Delete(t.Context(), foreign)).To(Succeed())
			f.ready(site)
		})
	}
	f.Expect(o.failures()).To(BeEmpty())
}

func owner(version, kind, name string, controls bool) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: types.UID("0f0f"), Controller: &controls}}
}

// calmly waits for some more reconciles, which must not change the Website.
func (f *fixture) calmly(o *operator, site *webhostingv1alpha1.Website) {
	f.t.Helper()
	before := now(f, site).ResourceVersion
	count := o.reconciled()[site.Name]
	f.Eventually(func() int { return o.reconciled()[site.Name] }).Should(BeNumerically(">", count+2))
	f.Expect(now(f, site).ResourceVersion).To(Equal(before), "nothing new is to be said")
}

// TestTerminating deletes a Website that somebody holds back.
func TestTerminating(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", light, func(w *webhostingv1alpha1.Website) { w.Finalizers = []string{"example.com/backup"} })
	f.ready(site)
	b := f.belongings(f, site)
	f.calm(o, site)

	f.Expect(f.Client.Delete(t.Context(), site)).To(Succeed())
	f.phase(site, webhostingv1alpha1.PhaseTerminating, webhostingv1alpha1.ReasonTerminating)
	o.wire.forget()
	o.history.forget()
	f.Expect(f.Client.Delete(t.Context(), b.page)).To(Succeed())
	f.Eventually(o.reconciled).Should(HaveKey("homepage"))
	f.calm(o, site)
	err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(b.page), b.page)
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "nothing is made any more")

	change(f, site, func(w *webhostingv1alpha1.Website) { w.Finalizers = nil })
	f.Eventually(func() bool {
		return apierrors.IsNotFound(f.Client.Get(t.Context(), client.ObjectKeyFromObject(site), site))
	}).Should(BeTrue())
	f.Expect(o.failures()).To(BeEmpty())
}

// TestGarbage deletes a Website and makes it anew at once, on a cluster that collects garbage.
func TestGarbage(t *testing.T) {
	f := setUp(t, rig.Private(t, rig.Options{ControllerManager: true, CRDs: []string{crds}}))
	o := f.start()
	f.theme("exciting", "darkcyan")
	first := f.website("homepage", "exciting", light)
	f.ready(first)
	old := f.belongings(f, first)

	f.Expect(f.Client.Delete(t.Context(), first)).To(Succeed())
	second := f.website("homepage", "exciting", light)
	f.ready(second)
	f.Eventually(func(g Gomega) {
		is := f.belongings(g, second)
		for kind, object := range is.all() {
			g.Expect(metav1.IsControlledBy(object, second)).To(BeTrue(), kind)
			g.Expect(object.GetUID()).NotTo(Equal(old.all()[kind].GetUID()), kind)
		}
	}).Should(Succeed())
	f.calm(o, second)

	f.Expect(f.Client.Delete(t.Context(), second)).To(Succeed())
	f.Eventually(func(g Gomega) {
		for kind, object := range newBelongings(second).all() {
			err := f.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), kind)
		}
	}).Should(Succeed(), "all goes with the Website")
	f.Expect(o.failures()).To(BeEmpty())
}

// TestProjectEnds deletes a namespace with all that is in it.
func TestProjectEnds(t *testing.T) {
	f := setUp(t, rig.Private(t, rig.Options{ControllerManager: true, CRDs: []string{crds}}))
	project := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "project"}}
	f.Expect(f.Client.Create(t.Context(), project)).To(Succeed())
	f.project = project.Name
	o := f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", light, func(w *webhostingv1alpha1.Website) { w.Finalizers = []string{"example.com/backup"} })
	f.ready(site)
	f.Expect(f.Client.Delete(t.Context(), project)).To(Succeed())
	f.phase(site, webhostingv1alpha1.PhaseTerminating, webhostingv1alpha1.ReasonTerminating)
	change(f, site, func(w *webhostingv1alpha1.Website) { w.Finalizers = nil })
	f.Eventually(func() bool {
		return apierrors.IsNotFound(f.Client.Get(t.Context(), client.ObjectKeyFromObject(project), project))
	}).Should(BeTrue())
	f.Expect(o.failures()).To(BeEmpty(), "nothing is tried in vain")
}

// TestEarlierWebsite has objects that are still there of a Website of the same name. They must be gone before
// there are new ones.
func TestEarlierWebsite(t *testing.T) {
	f := setUp(t, rig.Shared(t)) // nobody collects garbage here
	o := f.start()
	f.theme("exciting", "darkcyan")
	first := f.website("homepage", "exciting", light)
	f.ready(first)
	old := f.belongings(f, first)
	f.Expect(f.Client.Delete(t.Context(), first)).To(Succeed())

	second := f.website("homepage", "exciting", light)
	f.phase(second, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonReplacing)
	f.calmly(o, second)
	for kind, object := range f.belongings(f, second).all() {
		f.Expect(object.GetResourceVersion()).To(Equal(old.all()[kind].GetResourceVersion()), kind)
	}
	for kind, object := range old.all() {
		f.Expect(f.Client.Delete(t.Context(), object)).To(Succeed(), kind)
	}
	f.ready(second)
	for kind, object := range f.belongings(f, second).all() {
		f.Expect(metav1.IsControlledBy(object, second)).To(BeTrue(), kind)
	}
	f.Expect(o.failures()).To(BeEmpty())
}
