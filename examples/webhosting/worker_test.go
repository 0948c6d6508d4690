package main

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestOneItemAtATime requests many reconciles of few Websites from an operator with more workers.
func TestOneItemAtATime(t *testing.T) {
	const sites, pokes = 3, 20
	f := setUp(t, rig.Shared(t))
	o := f.start(func(o *options) { o.website.Concurrency = 15 })
	f.theme("exciting", "darkcyan")
	var group sync.WaitGroup
	for i := range sites {
		site := f.website(fmt.Sprintf("site-%d", i), "exciting", withoutWorkload)
		group.Go(func() {
			for range pokes {
				f.requestReconcile(site)
			}
		})
	}
	group.Wait()
	f.Eventually(o.reconciled).Should(HaveLen(sites))
	overlaps, maxConcurrent := o.overlaps()
	f.Expect(overlaps).To(BeEmpty())
	f.Expect(maxConcurrent).To(BeNumerically(">", 1), "different Websites are reconciled concurrently")
}

// TestFailedWritesAreRetried lets each kind of write fail a few times.
func TestFailedWritesAreRetried(t *testing.T) {
	const failing = 3
	f := setUp(t, rig.Shared(t))
	proxy := &transport{}
	o := f.startWith(proxy)
	f.theme("exciting", "darkcyan")
	for kind, part := range map[string]string{
		"configmaps": "/configmaps", "deployments": "/deployments", "services": "/services", "ingresses": "/ingresses", "status": "/status",
	} {
		t.Run(kind, func(t *testing.T) {
			f := setUp(t, f.Rig)
			var refused atomic.Int32
			proxy.setRefuse(func(request *http.Request) bool {
				return request.Method != http.MethodGet && strings.HasSuffix(request.URL.Path, part) && refused.Add(1) <= failing
			})
			o.reconcileLog.reset()
			site := f.website("broken-"+kind, "exciting", withoutWorkload)
			f.waitForReady(site)
			f.Expect(f.children(f, site).all()).To(HaveLen(4))
			f.Expect(len(o.failures())).To(BeNumerically(">=", failing), "each failure was returned to the queue")
			proxy.setRefuse(nil)
			f.waitUntilIdle(o, site)
		})
	}
}

// TestQuotaExceeded rejects the Deployment of a Website with a quota, until the quota is deleted.
func TestQuotaExceeded(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.start()
	f.theme("exciting", "darkcyan")
	const deployments = corev1.ResourceName("count/deployments.apps")
	none := corev1.ResourceList{deployments: resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	f.Expect(f.Client.Create(t.Context(), quota)).To(Succeed())
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none} // as the quota controller would
	f.Expect(f.Client.Status().Update(t.Context(), quota)).To(Succeed())

	site := f.website("homepage", "exciting", withoutWorkload)
	f.waitForPhase(site, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonRefused)
	f.Expect(meta.FindStatusCondition(site.Status.Conditions, webhostingv1alpha1.ConditionReady).Message).To(ContainSubstring("exceeded quota"))
	f.Expect(f.Client.Delete(t.Context(), quota)).To(Succeed())
	f.waitForReady(site)
}

// TestWaitForAllCaches delays the list of one kind at a time. The operator must not reconcile
// before it arrives.
func TestWaitForAllCaches(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", withoutWorkload)
	first := f.start()
	f.waitForReady(site)
	f.waitUntilIdle(first, site)
	first.stop()

	for _, kind := range []string{"configmaps", "deployments", "services", "ingresses", "themes"} {
		t.Run(kind, func(t *testing.T) {
			f := setUp(t, f.Rig)
			arrived := make(chan struct{})
			waited := sync.OnceFunc(func() { close(arrived) })
			release := make(chan struct{})
			o := f.startWith(&transport{hold: func(request *http.Request) <-chan struct{} {
				if path.Base(request.URL.Path) != kind || request.Method != http.MethodGet {
					return nil
				}
				waited()
				return release
			}})
			f.Eventually(arrived).Should(BeClosed())
			f.Consistently(o.reconciled).Should(BeEmpty())
			f.Expect(o.writes()).To(BeEmpty())
			close(release)
			f.Eventually(o.reconciled).Should(HaveKey("homepage"))
			f.Expect(o.writes()).To(BeEmpty(), "the operator finds its objects")
			o.stop()
		})
	}
}

// TestCachedObjectsAreNotModified compares the objects in the caches with copies of them.
func TestCachedObjectsAreNotModified(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	caches := watchCaches(f, o)
	theme := f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", withoutWorkload)
	f.waitForReady(site)

	t.Log("Change all objects")
	b := f.children(f, site)
	change(f, b.service, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
	change(f, b.ingress, func(i *networkingv1.Ingress) { i.Labels["app.kubernetes.io/name"] = "theirs" })
	change(f, b.workload, func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"theirs": ""} })
	change(f, theme, func(theme *webhostingv1alpha1.Theme) { theme.Spec.Color = "red" })
	change(f, site, func(w *webhostingv1alpha1.Website) { w.Labels = nil })
	f.waitForPhase(site, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing)
	f.Eventually(func(g Gomega) {
		b := f.children(g, site)
		g.Expect(b.page.Data["index.html"]).To(ContainSubstring("red"))
		g.Expect(b.service.Spec.Ports[0].Port).To(BeEquivalentTo(8080))
		g.Expect(b.ingress.Labels["app.kubernetes.io/name"]).To(Equal("website"))
		g.Expect(b.workload.Spec.Template.Annotations).To(HaveLen(2))
	}).Should(Succeed())
	f.waitUntilIdle(o, site)
	f.Expect(caches.kinds()).To(HaveLen(6))
	f.Expect(caches.changed()).To(BeEmpty())
}

// cachedSites has the objects of a cache, and copies from when they arrived.
type cachedSites struct {
	mu                sync.Mutex
	originals, copies []client.Object
}

func watchCaches(f *fixture, o *operator) *cachedSites {
	f.t.Helper()
	caches := &cachedSites{}
	see := func(found any) {
		original := found.(client.Object)
		same := original.DeepCopyObject().(client.Object)
		caches.mu.Lock()
		defer caches.mu.Unlock()
		caches.originals, caches.copies = append(caches.originals, original), append(caches.copies, same)
	}
	for _, kind := range []client.Object{
		&webhostingv1alpha1.Website{}, &webhostingv1alpha1.Theme{},
		&corev1.ConfigMap{}, &appsv1.Deployment{}, &corev1.Service{}, &networkingv1.Ingress{},
	} {
		informer, err := o.GetCache().GetInformer(f.t.Context(), kind)
		f.Expect(err).NotTo(HaveOccurred())
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, found any) { see(found) }})
		f.Expect(err).NotTo(HaveOccurred())
	}
	return caches
}

func (c *cachedSites) kinds() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for _, object := range c.originals {
		counts[fmt.Sprintf("%T", object)]++
	}
	return counts
}

func (c *cachedSites) changed() (diffs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.originals {
		if diff := cmp.Diff(c.copies[i], c.originals[i]); diff != "" {
			diffs = append(diffs, diff)
		}
	}
	return diffs
}

// TestOneWatchPerKind expects one list and watch for each kind.
func TestOneWatchPerKind(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", withoutWorkload)
	f.waitForReady(site)
	lists := map[string]int{}
	for _, request := range o.matching(func(request string) bool { return strings.HasPrefix(request, "LIST ") }) {
		lists[path.Base(request)]++
	}
	f.Expect(lists).To(Equal(map[string]int{"websites": 1, "themes": 1, "configmaps": 1, "deployments": 1, "services": 1, "ingresses": 1}))
	f.waitUntilIdle(o, site)
	f.Expect(o.reads()).To(BeEmpty())
}
