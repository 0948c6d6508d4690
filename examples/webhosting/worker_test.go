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

// TestOneItemAtATime asks for many reconciles of few Websites at once, of an operator with more workers
// than that.
func TestOneItemAtATime(t *testing.T) {
	const sites, pokes = 3, 20
	f := setUp(t, rig.Shared(t))
	o := f.start(func(o *options) { o.website.Concurrency = 15 })
	f.theme("exciting", "darkcyan")
	var group sync.WaitGroup
	for i := range sites {
		site := f.website(fmt.Sprintf("site-%d", i), "exciting", light)
		group.Go(func() {
			for range pokes {
				f.poke(site)
			}
		})
	}
	group.Wait()
	f.Eventually(o.reconciled).Should(HaveLen(sites))
	overlaps, most := o.overlaps()
	f.Expect(overlaps).To(BeEmpty())
	f.Expect(most).To(BeNumerically(">", 1), "but different Websites are worked on side by side")
}

// TestErrorsComeBack lets each kind of write fail for a while.
func TestErrorsComeBack(t *testing.T) {
	const failing = 3
	f := setUp(t, rig.Shared(t))
	between := &wire{}
	o := f.startWith(between)
	f.theme("exciting", "darkcyan")
	for kind, part := range map[string]string{
		"configmaps": "/configmaps", "deployments": "/deployments", "services": "/services", "ingresses": "/ingresses", "status": "/status",
	} {
		t.Run(kind, func(t *testing.T) {
			f := setUp(t, f.Rig)
			var refused atomic.Int32
			between.refuses(func(request *http.Request) bool {
				return request.Method != http.MethodGet && strings.HasSuffix(request.URL.Path, part) && refused.Add(1) <= failing
			})
			o.history.forget()
			site := f.website("broken-"+kind, "exciting", light)
			f.ready(site)
			f.Expect(f.belongings(f, site).all()).To(HaveLen(4))
			f.Expect(len(o.failures())).To(BeNumerically(">=", failing), "each was told to the queue, which tries again")
			between.refuses(nil)
			f.calm(o, site)
		})
	}
}

// TestRefused has a Website that is not allowed a Deployment, until it is.
func TestRefused(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.start()
	f.theme("exciting", "darkcyan")
	const deployments = corev1.ResourceName("count/deployments.apps")
	none := corev1.ResourceList{deployments: resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	f.Expect(f.Client.Create(t.Context(), quota)).To(Succeed())
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none} // as its controller would
	f.Expect(f.Client.Status().Update(t.Context(), quota)).To(Succeed())

	site := f.website("homepage", "exciting", light)
	f.phase(site, webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonRefused)
	f.Expect(meta.FindStatusCondition(site.Status.Conditions, webhostingv1alpha1.ConditionReady).Message).To(ContainSubstring("exceeded quota"))
	f.Expect(f.Client.Delete(t.Context(), quota)).To(Succeed())
	f.ready(site)
}

// TestCachesFirst keeps the list of Deployments waiting. Who does not know the Deployments must not begin to
// make some.
func TestCachesFirst(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", light)
	first := f.start()
	f.ready(site)
	f.calm(first, site)
	first.stop()

	for _, kind := range []string{"configmaps", "deployments", "services", "ingresses", "themes"} {
		t.Run(kind, func(t *testing.T) {
			f := setUp(t, f.Rig)
			arrived := make(chan struct{})
			waited := sync.OnceFunc(func() { close(arrived) })
			release := make(chan struct{})
			o := f.startWith(&wire{hold: func(request *http.Request) <-chan struct{} {
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
			f.Expect(o.writes()).To(BeEmpty(), "it sees that everything is there")
			o.stop()
		})
	}
}

// TestCopies looks at the very objects that are in the caches, when they come and after all work is done.
func TestCopies(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	seen := watchCaches(f, o)
	theme := f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", light)
	f.ready(site)

	t.Log("Everything that can change changes")
	b := f.belongings(f, site)
	change(f, b.service, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
	change(f, b.ingress, func(i *networkingv1.Ingress) { i.Labels["app.kubernetes.io/name"] = "theirs" })
	change(f, b.workload, func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"theirs": ""} })
	change(f, theme, func(theme *webhostingv1alpha1.Theme) { theme.Spec.Color = "red" })
	change(f, site, func(w *webhostingv1alpha1.Website) { w.Labels = nil })
	f.phase(site, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing)
	f.Eventually(func(g Gomega) {
		b := f.belongings(g, site)
		g.Expect(b.page.Data["index.html"]).To(ContainSubstring("red"))
		g.Expect(b.service.Spec.Ports[0].Port).To(BeEquivalentTo(8080))
		g.Expect(b.ingress.Labels["app.kubernetes.io/name"]).To(Equal("website"))
		g.Expect(b.workload.Spec.Template.Annotations).To(HaveLen(2))
	}).Should(Succeed())
	f.calm(o, site)
	f.Expect(seen.kinds()).To(HaveLen(6))
	f.Expect(seen.changed()).To(BeEmpty())
}

// cached are objects of a cache, and copies of them from when they came.
type cached struct {
	mu                sync.Mutex
	originals, copies []client.Object
}

func watchCaches(f *fixture, o *operator) *cached {
	f.t.Helper()
	seen := &cached{}
	see := func(found any) {
		original := found.(client.Object)
		same := original.DeepCopyObject().(client.Object)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		seen.originals, seen.copies = append(seen.originals, original), append(seen.copies, same)
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
	return seen
}

func (c *cached) kinds() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for _, object := range c.originals {
		counts[fmt.Sprintf("%T", object)]++
	}
	return counts
}

func (c *cached) changed() (diffs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.originals {
		if diff := cmp.Diff(c.copies[i], c.originals[i]); diff != "" {
			diffs = append(diffs, diff)
		}
	}
	return diffs
}

// TestOneCache counts what an instance asks the API server for: it is told of each kind, once.
func TestOneCache(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	o := f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting", light)
	f.ready(site)
	lists := map[string]int{}
	for _, request := range o.asked(func(request string) bool { return strings.HasPrefix(request, "LIST ") }) {
		lists[path.Base(request)]++
	}
	f.Expect(lists).To(Equal(map[string]int{"websites": 1, "themes": 1, "configmaps": 1, "deployments": 1, "services": 1, "ingresses": 1}))
	f.calm(o, site)
	f.Expect(o.reads()).To(BeEmpty())
}
