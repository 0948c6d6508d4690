//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
)

// ingress is the name of the ingress controller, and of all objects that run it.
const ingress = "ingress"

// ingressManifest has its objects except for the Deployment. The argument is the namespace.
const ingressManifest = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: ingress, namespace: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "%[1]s:ingress"}
rules:
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "%[1]s:ingress"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "%[1]s:ingress"}
subjects:
- {kind: ServiceAccount, namespace: %[1]s, name: ingress}
---
apiVersion: v1
kind: Service
metadata: {name: ingress, namespace: %[1]s}
spec:
  selector: {app: ingress}
  ports:
  - {name: http, port: 80, targetPort: http}
`

func ingressDeployment() *appsv1.Deployment {
	labels := map[string]string{"app": ingress}
	spec := restrictedPod(container(ingress, "--class=nginx"))
	spec.ServiceAccountName = ingress
	server := &spec.Containers[0]
	server.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
	server.ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}},
		PeriodSeconds: 1,
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: ingress},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}

// web is the address of the ingress controller.
type web struct {
	client *http.Client
	base   string
}

// runIngress starts an ingress controller in the test's namespace.
func (c *cluster) runIngress() *web {
	c.Helper()
	manifest := fmt.Sprintf(ingressManifest, c.namespace)
	c.kubectl(manifest, "apply", "-f", "-")
	c.Cleanup(func() { c.kubectl(manifest, "delete", "--ignore-not-found", "-f", "-") })
	if _, err := c.client.AppsV1().Deployments(c.namespace).Create(c.Context(), ingressDeployment(), metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	c.kubectl("", "rollout", "status", "-n", c.namespace, "deployment/"+ingress, "--timeout="+testTimeout.String())
	return c.ingressWeb()
}

// ingressWeb returns the address of the ingress controller's Service, or that of the API server's proxy for it if Services are
// unreachable.
func (c *cluster) ingressWeb() *web {
	c.Helper()
	if onNode() {
		service, err := c.client.CoreV1().Services(c.namespace).Get(c.Context(), ingress, metav1.GetOptions{})
		if err != nil {
			c.Fatal(err)
		}
		client := &http.Client{Timeout: testTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
		return &web{client, "http://" + service.Spec.ClusterIP}
	}
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		c.Fatal(err)
	}
	return &web{client, fmt.Sprintf("%s/api/v1/namespaces/%s/services/http:%s:80/proxy", strings.TrimSuffix(c.config.Host, "/"), c.namespace, ingress)}
}

// page returns the page at a path. It fails if nginx did not serve it.
func (w *web) page(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+path, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch server := response.Header.Get("Server"); {
	case err != nil:
		return "", fmt.Errorf("reading %s: %w", path, err)
	case response.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s: %s: %s", path, response.Status, strings.TrimSpace(string(body)))
	case server != "nginx":
		return "", fmt.Errorf("%s is served by %q", path, server)
	}
	return string(body), nil
}

// addresses returns the paths of all Websites, and texts in their pages.
func (h *hosting) addresses(g Gomega) map[string][]string {
	colors := map[string]string{}
	offered, err := h.objects.Resource(themes).List(h.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for i := range offered.Items {
		theme := &offered.Items[i]
		colors[theme.GetName()] = text(g, theme, "color")
	}
	all, err := h.objects.Resource(websites).List(h.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Items).NotTo(BeEmpty())
	shown := map[string][]string{}
	for i := range all.Items {
		website := &all.Items[i]
		color := colors[text(g, website, "theme")]
		g.Expect(color).NotTo(BeEmpty(), "the theme of %s/%s", website.GetNamespace(), website.GetName())
		shown["/"+website.GetNamespace()+"/"+website.GetName()] = []string{
			"Welcome to " + website.GetName() + "<", "a website of " + website.GetNamespace() + ",", "background-color: " + color + ";",
		}
	}
	return shown
}

// text returns a field of an object's spec.
func text(g Gomega, object *unstructured.Unstructured, field string) string {
	value, there, err := unstructured.NestedString(object.Object, "spec", field)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(there).To(BeTrue(), "%s of %s", field, object.GetName())
	return value
}

// pagesAreCurrent waits until every page shows its Website's name and its Theme's color.
func (h *hosting) pagesAreCurrent() {
	h.Helper()
	h.eventually(func(g Gomega) {
		for path, contents := range h.addresses(g) {
			page, err := h.web.page(h.Context(), path)
			g.Expect(err).NotTo(HaveOccurred())
			for _, content := range contents {
				g.Expect(page).To(ContainSubstring(content), "%s", path)
			}
		}
	}, "every page has its name and color")
	_, err := h.web.page(h.Context(), "/"+sampleProject+"/nothing")
	NewWithT(h).Expect(err).To(MatchError(ContainSubstring("404")), "a path without a Website")
}

// visitor requests all pages continuously, one after the other.
type visitor struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu       sync.Mutex
	visits   int
	failures []string
}

// startVisitor starts a visitor of all present pages.
func (h *hosting) startVisitor() *visitor {
	h.Helper()
	ctx, cancel := context.WithCancel(h.Context())
	v := &visitor{cancel: cancel}
	pages := h.addresses(NewWithT(h))
	v.ended.Go(func() {
		for ctx.Err() == nil {
			for path, contents := range pages {
				v.visit(context.WithoutCancel(ctx), h.web, path, contents)
				time.Sleep(pause / time.Duration(len(pages))) // each page four times a second
			}
		}
	})
	h.Cleanup(v.stop)
	return v
}

func (v *visitor) visit(ctx context.Context, web *web, path string, contents []string) {
	began := time.Now()
	page, err := web.page(ctx, path)
	for _, content := range contents {
		if err == nil && !strings.Contains(page, content) {
			err = fmt.Errorf("%s does not show %q", path, content)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.visits++
	if err != nil {
		v.failures = append(v.failures, fmt.Sprintf("at %s, after %s: %v", began.Format(time.TimeOnly), time.Since(began).Round(time.Millisecond), err))
	}
}

func (v *visitor) stop() {
	v.cancel()
	v.ended.Wait()
}

// expectNoFailures fails the test if a request has failed or a page was not current.
func (v *visitor) expectNoFailures(c *cluster) {
	c.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.failures) > 0 {
		c.Fatalf("%d of %d visits failed, the first: %s", len(v.failures), v.visits, v.failures[0])
	}
	c.Logf("%d visits of pages, none failed", v.visits)
}
