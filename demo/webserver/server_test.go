package webserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/demo/webserver"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

// site returns the objects of a page under a path, by kind.
func site(namespace, name, path, page string) map[string]client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	below := networkingv1.PathTypePrefix
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: name, Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
	labels := map[string]string{"app": name}
	return map[string]client.Object{
		"Ingress": &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{
			{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: path, PathType: &below, Backend: backend}},
			}}},
		}}},
		"Service": &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}},
		"Deployment": &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}},
					Volumes: []corev1.Volume{
						{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
						{Name: "site", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: name},
						}}},
					},
				},
			},
		}},
		"ConfigMap": &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"index.html": page}},
	}
}

// TestPages serves pages from the objects of a real API server.
func TestPages(t *testing.T) {
	r := rig.Shared(t)
	prefix := "/" + r.Namespace
	create := func(name, path string, without string) {
		t.Helper()
		for kind, object := range site(r.Namespace, name, prefix+path, "<h1>"+name+"</h1>") {
			if kind == without {
				continue
			}
			if err := r.Client.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	create("shop", "/shop", "")
	create("cellar", "/shop/cellar", "")
	create("pageless", "/pageless", "ConfigMap")
	create("podless", "/podless", "Deployment")
	create("serviceless", "/serviceless", "Service")
	handler := webserver.Handler(r.Client, "shard", func() []webserver.Site { return nil })

	for name, test := range map[string]struct {
		path   string
		status int
		body   string
	}{
		"a page":                      {"/shop", http.StatusOK, "<h1>shop</h1>"},
		"a path below it":             {"/shop/about", http.StatusOK, "<h1>shop</h1>"},
		"a longer path":               {"/shop/cellar", http.StatusOK, "<h1>cellar</h1>"},
		"a path with the same prefix": {"/shopping", http.StatusNotFound, "no Ingress found"},
		"the ConfigMap is missing":    {"/pageless", http.StatusServiceUnavailable, "ConfigMap"},
		"the Deployment is missing":   {"/podless", http.StatusServiceUnavailable, "no Deployment"},
		"the Service is missing":      {"/serviceless", http.StatusServiceUnavailable, "Service"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := get(handler, prefix+test.path)
			if answer.Code != test.status || !strings.Contains(answer.Body.String(), test.body) {
				t.Errorf("got %d, %s", answer.Code, answer.Body)
			}
		})
	}
}

func get(handler http.Handler, path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return recorder
}

// TestIndexIsEscaped lists a site with markup in all of its fields.
func TestIndexIsEscaped(t *testing.T) {
	const attack = `"><script>alert(1)</script>`
	handler := webserver.Handler(nil, "shard", func() []webserver.Site {
		return []webserver.Site{
			{Namespace: attack, Name: attack, Theme: attack, Phase: attack, Owner: attack},
			{Namespace: "project", Name: "shop", Theme: "dark", Phase: "Ready", Owner: "shard-0"},
			{Namespace: "project", Name: "new"},
		}
	})
	answer := get(handler, "/")
	body := answer.Body.String()
	if answer.Code != http.StatusOK || strings.Contains(body, "<script>") {
		t.Errorf("got %d:\n%s", answer.Code, body)
	}
	for _, want := range []string{
		"3 websites", `<a href="/project/shop">project/shop</a></td><td>dark</td><td>Ready</td><td>shard-0</td>`, "<td>none</td>",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is missing in:\n%s", want, body)
		}
	}
}
