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

// TestNameTaken creates objects of other owners with the name of a child.
func TestNameTaken(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	f.theme("exciting", "darkcyan")
	for name, test := range map[string]struct {
		site    string
		change  func(*corev1.ConfigMap)
		message string
	}{
		"no owner": {"no-owner", func(*corev1.ConfigMap) {}, "it has no controller"},
		"with our labels": {"labelled", func(c *corev1.ConfigMap) {
			c.Labels = map[string]string{"app.kubernetes.io/managed-by": "webhosting-operator"}
		}, "it has no controller"},
		"another kind": {"another-kind", func(c *corev1.ConfigMap) { c.OwnerReferences = owner("v1", "Pod", "theirs", true) }, "Pod theirs controls it"},
		"another Website": {"another", func(c *corev1.ConfigMap) {
			c.OwnerReferences = owner("webhosting.timebertt.dev/v1alpha1", "Website", "other", true)
		}, "Website other controls it"},
		"owned but not controlled": {"shared", func(c *corev1.ConfigMap) {
			c.OwnerReferences = owner("webhosting.timebertt.dev/v1alpha1", "Website", "shared", false)
		}, "it has no controller"},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t, f.Rig)
			site := &webhostingv1alpha1.Website{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: test.site}}
			foreign := newChildren(site).page
			foreign.Data = map[string]string{"index.html": "theirs"}
			test.change(foreign)
			f.Expect(f.Client.Create(t.Context(), foreign)).To(Succeed())
			before := foreign.ResourceVersion

			site = f.website(test.site, "exciting", withoutWorkload)
			f.waitForPhase(site, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonNameTaken)
			f.Expect(site.Status.Conditions[0].Message).To(And(ContainSubstring("ConfigMap "+foreign.Name), ContainSubstring(test.message)))
			f.expectNoChange(o, site)
			f.Expect(refresh(f, foreign).ResourceVersion).To(Equal(before), "the object of the other owner is not changed")

			t.Log("The Website becomes ready when the name is free")
			f.Expect(f.Client.Delete(t.Context(), foreign)).To(Succeed())
			f.waitForReady(site)
		})
	}
	f.Expect(o.failures()).To(BeEmpty())
}

func owner(version, kind, name string, controls bool) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: types.UID("0f0f"), Controller: &controls}}
}

// expectNoChange waits for some more reconciles, which must not change the Website.
func (f *fixture) expectNoChange(o *operator, site *webhostingv1alpha1.Website) {
	f.t.Helper()
	before := refresh(f, site).ResourceVersion
	count := o.reconciled()[site.Name]
	f.Eventually(func() int { return o.reconciled()[site.Name] }).Should(BeNumerically(">", count+2))
	f.Expect(refresh(f, site).ResourceVersion).To(Equal(before), "the status does not change")
}

// TestTerminating deletes a Website with a finalizer.
func TestTerminating(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", withoutWorkload, func(w *webhostingv1alpha1.Website) { w.Finalizers = []string{"example.com/backup"} })
	f.waitForReady(site)
	b := f.children(f, site)
	f.waitUntilIdle(o, site)

	f.Expect(f.Client.Delete(t.Context(), site)).To(Succeed())
	f.waitForPhase(site, webhostingv1alpha1.PhaseTerminating, webhostingv1alpha1.ReasonTerminating)
	o.transport.reset()
	o.reconcileLog.reset()
	f.Expect(f.Client.Delete(t.Context(), b.page)).To(Succeed())
	f.Eventually(o.reconciled).Should(HaveKey("homepage"))
	f.waitUntilIdle(o, site)
	err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(b.page), b.page)
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "children of a terminating Website are not created")

	change(f, site, func(w *webhostingv1alpha1.Website) { w.Finalizers = nil })
	f.Eventually(func() bool {
		return apierrors.IsNotFound(f.Client.Get(t.Context(), client.ObjectKeyFromObject(site), site))
	}).Should(BeTrue())
	f.Expect(o.failures()).To(BeEmpty())
}

// TestRecreatedWebsite deletes a Website and creates it again at once, with a garbage collector.
func TestRecreatedWebsite(t *testing.T) {
	f := setUp(t, rig.Private(t, rig.Options{ControllerManager: true, CRDs: []string{crds}}))
	o := f.start()
	f.theme("exciting", "darkcyan")
	first := f.website("homepage", "exciting", withoutWorkload)
	f.waitForReady(first)
	old := f.children(f, first)

	f.Expect(f.Client.Delete(t.Context(), first)).To(Succeed())
	second := f.website("homepage", "exciting", withoutWorkload)
	f.waitForReady(second)
	f.Eventually(func(g Gomega) {
		current := f.children(g, second)
		for kind, object := range current.all() {
			g.Expect(metav1.IsControlledBy(object, second)).To(BeTrue(), kind)
			g.Expect(object.GetUID()).NotTo(Equal(old.all()[kind].GetUID()), kind)
		}
	}).Should(Succeed())
	f.waitUntilIdle(o, second)

	f.Expect(f.Client.Delete(t.Context(), second)).To(Succeed())
	f.Eventually(func(g Gomega) {
		for kind, object := range newChildren(second).all() {
			err := f.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), kind)
		}
	}).Should(Succeed(), "the children are deleted with the Website")
	f.Expect(o.failures()).To(BeEmpty())
}

// TestNamespaceDeletion deletes the namespace of a Website.
func TestNamespaceDeletion(t *testing.T) {
	f := setUp(t, rig.Private(t, rig.Options{ControllerManager: true, CRDs: []string{crds}}))
	project := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "project"}}
	f.Expect(f.Client.Create(t.Context(), project)).To(Succeed())
	f.project = project.Name
	o := f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", withoutWorkload, func(w *webhostingv1alpha1.Website) { w.Finalizers = []string{"example.com/backup"} })
	f.waitForReady(site)
	f.Expect(f.Client.Delete(t.Context(), project)).To(Succeed())
	f.waitForPhase(site, webhostingv1alpha1.PhaseTerminating, webhostingv1alpha1.ReasonTerminating)
	change(f, site, func(w *webhostingv1alpha1.Website) { w.Finalizers = nil })
	f.Eventually(func() bool {
		return apierrors.IsNotFound(f.Client.Get(t.Context(), client.ObjectKeyFromObject(project), project))
	}).Should(BeTrue())
	f.Expect(o.failures()).To(BeEmpty(), "the deletion causes no retries")
}

// TestChildrenOfEarlierWebsite has children of a deleted Website of the same name. New ones must
// not be created before they are gone.
func TestChildrenOfEarlierWebsite(t *testing.T) {
	f := setUp(t, rig.Shared(t)) // without a garbage collector
	o := f.start()
	f.theme("exciting", "darkcyan")
	first := f.website("homepage", "exciting", withoutWorkload)
	f.waitForReady(first)
	old := f.children(f, first)
	f.Expect(f.Client.Delete(t.Context(), first)).To(Succeed())

	second := f.website("homepage", "exciting", withoutWorkload)
	f.waitForPhase(second, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonReplacing)
	f.expectNoChange(o, second)
	for kind, object := range f.children(f, second).all() {
		f.Expect(object.GetResourceVersion()).To(Equal(old.all()[kind].GetResourceVersion()), kind)
	}
	for kind, object := range old.all() {
		f.Expect(f.Client.Delete(t.Context(), object)).To(Succeed(), kind)
	}
	f.waitForReady(second)
	for kind, object := range f.children(f, second).all() {
		f.Expect(metav1.IsControlledBy(object, second)).To(BeTrue(), kind)
	}
	f.Expect(o.failures()).To(BeEmpty())
}
