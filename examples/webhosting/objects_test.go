package main

import (
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/webhosting/website"
)

// theme creates a Theme. Themes are cluster-scoped, so its name contains the namespace of the test.
func (f *fixture) theme(name, color string) *webhostingv1alpha1.Theme {
	f.t.Helper()
	theme := &webhostingv1alpha1.Theme{
		ObjectMeta: metav1.ObjectMeta{Name: f.Namespace + "." + name},
		Spec:       webhostingv1alpha1.ThemeSpec{Color: color, FontFamily: "Menlo"},
	}
	f.Expect(f.Client.Create(f.t.Context(), theme)).To(Succeed())
	return theme
}

// website creates a Website with a Theme of this test.
func (f *fixture) website(name, theme string, change ...func(*webhostingv1alpha1.Website)) *webhostingv1alpha1.Website {
	f.t.Helper()
	site := &webhostingv1alpha1.Website{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.project, Name: name},
		Spec:       webhostingv1alpha1.WebsiteSpec{Theme: f.Namespace + "." + theme},
	}
	for _, c := range change {
		c(site)
	}
	f.Expect(f.Client.Create(f.t.Context(), site)).To(Succeed())
	return site
}

// withoutWorkload makes a Website skip its pods.
func withoutWorkload(w *webhostingv1alpha1.Website) {
	metav1.SetMetaDataLabel(&w.ObjectMeta, webhostingv1alpha1.LabelSkipWorkload, "")
}

// children are the children of a Website.
type children struct {
	page       *corev1.ConfigMap
	workload   *appsv1.Deployment
	service    *corev1.Service
	ingress    *networkingv1.Ingress
	serverName string
}

func newChildren(site client.Object) *children {
	b := &children{serverName: website.ServerName(client.ObjectKeyFromObject(site))}
	own := metav1.ObjectMeta{Namespace: site.GetNamespace(), Name: b.serverName}
	b.page, b.workload = &corev1.ConfigMap{ObjectMeta: own}, &appsv1.Deployment{ObjectMeta: own}
	b.service, b.ingress = &corev1.Service{ObjectMeta: own}, &networkingv1.Ingress{ObjectMeta: own}
	return b
}

func (b *children) all() map[string]client.Object {
	return map[string]client.Object{"ConfigMap": b.page, "Deployment": b.workload, "Service": b.service, "Ingress": b.ingress}
}

// children reads the children of a Website, all of which must exist.
func (f *fixture) children(g Gomega, site client.Object) *children {
	b := newChildren(site)
	for kind, object := range b.all() {
		g.Expect(f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed(), kind)
		g.Expect(object.GetDeletionTimestamp()).To(BeNil(), kind)
	}
	return b
}

// refresh reads an object again.
func refresh[T client.Object](f *fixture, object T) T {
	f.t.Helper()
	f.Expect(f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}

// waitForPhase waits until the current generation of a Website is in a phase.
func (f *fixture) waitForPhase(site *webhostingv1alpha1.Website, want webhostingv1alpha1.Phase, reason string) {
	f.t.Helper()
	f.Eventually(func(g Gomega) {
		g.Expect(f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(site), site)).To(Succeed())
		g.Expect(site.Status.Phase).To(Equal(want))
		g.Expect(site.Status.ObservedGeneration).To(Equal(site.Generation))
		ready := meta.FindStatusCondition(site.Status.Conditions, webhostingv1alpha1.ConditionReady)
		g.Expect(ready).NotTo(BeNil())
		g.Expect(ready.Reason).To(Equal(reason), ready.Message)
		g.Expect(ready.ObservedGeneration).To(Equal(site.Generation))
	}).Should(Succeed())
}

// waitForReady waits until a Website without pods is ready.
func (f *fixture) waitForReady(site *webhostingv1alpha1.Website) {
	f.t.Helper()
	f.waitForPhase(site, webhostingv1alpha1.PhaseReady, webhostingv1alpha1.ReasonWorkloadSkipped)
}

// setDeploymentStatus sets the status that the Deployment controller would set when all pods are
// available.
func (f *fixture) setDeploymentStatus(b *children, change ...func(*appsv1.DeploymentStatus)) {
	f.t.Helper()
	workload := refresh(f, b.workload)
	workload.Status = appsv1.DeploymentStatus{
		ObservedGeneration: workload.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
	}
	for _, c := range change {
		c(&workload.Status)
	}
	f.Expect(f.Client.Status().Update(f.t.Context(), workload)).To(Succeed())
}

// change patches an object without a precondition.
func change[T client.Object](f *fixture, object T, how func(T)) {
	f.t.Helper()
	before, _ := object.DeepCopyObject().(client.Object)
	how(object)
	f.Expect(f.Client.Patch(f.t.Context(), object, client.MergeFrom(before))).To(Succeed())
}

// requestReconcile triggers a reconcile, as load tests do.
func (f *fixture) requestReconcile(site *webhostingv1alpha1.Website) {
	f.t.Helper()
	change(f, site, func(w *webhostingv1alpha1.Website) {
		metav1.SetMetaDataAnnotation(&w.ObjectMeta, "reconcile-requested", time.Now().Format(time.RFC3339Nano))
	})
}

// waitUntilIdle waits until a requested reconcile of each Website causes no write.
func (f *fixture) waitUntilIdle(o *operator, all ...*webhostingv1alpha1.Website) {
	f.t.Helper()
	f.Eventually(func(g Gomega) {
		before := o.reconciled()
		o.transport.reset()
		for _, object := range all {
			f.requestReconcile(object)
		}
		g.Eventually(func(g Gomega) {
			counts := o.reconciled()
			for _, object := range all {
				g.Expect(counts[object.Name]).To(BeNumerically(">", before[object.Name]), object.Name)
			}
		}).WithTimeout(timeout).Should(Succeed())
		g.Expect(o.writes()).To(BeEmpty())
	}).Should(Succeed())
}
