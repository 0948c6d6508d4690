package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1listers "k8s.io/client-go/listers/core/v1"
	networkingv1listers "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
)

// ingress has a rule for a path, with the Service of its own name.
func ingress(name, class, path string, change ...func(*networkingv1.IngressRule)) *networkingv1.Ingress {
	kind := networkingv1.PathTypePrefix
	rule := networkingv1.IngressRule{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Path: path, PathType: &kind, Backend: networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Name: "http"}},
		}}},
	}}}
	for _, do := range change {
		do(&rule)
	}
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "project", Name: name},
		Spec:       networkingv1.IngressSpec{IngressClassName: &class, Rules: []networkingv1.IngressRule{rule}},
	}
}

func exact(rule *networkingv1.IngressRule) {
	rule.HTTP.Paths[0].PathType = new(networkingv1.PathTypeExact)
}

func ofHost(rule *networkingv1.IngressRule) { rule.Host = "a.example.com" }

func TestRoute(t *testing.T) {
	ingresses := []*networkingv1.Ingress{
		ingress("short", "nginx", "/project"),
		ingress("shop", "nginx", "/project/shop"),
		ingress("shop-itself", "nginx", "/project/shop", exact),
		ingress("slash", "nginx", "/slash/"),
		ingress("other", "fake", "/other"),
		ingress("host", "nginx", "/host", ofHost),
	}
	for request, want := range map[string]string{
		"/project":                   "short",
		"/project/":                  "short",
		"/project/shopping":          "short",
		"/project/shop":              "shop-itself",
		"/project/shop/":             "shop",
		"/project/shop/a/b":          "shop",
		"/slash":                     "slash",
		"/slash/a":                   "slash",
		"/":                          "",
		"/projects":                  "",
		"/other":                     "",
		"/host":                      "",
		"a.example.com/host":         "host",
		"a.example.com/project/shop": "shop-itself",
	} {
		t.Run(request, func(t *testing.T) {
			host, path, _ := strings.Cut(request, "/")
			got := ""
			if found := route(ingresses, "nginx", host, "/"+path); found != nil {
				got = found.service.Name
			}
			if got != want {
				t.Errorf("goes to %q, want %q", got, want)
			}
		})
	}
}

func service(name, ip string, port int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "project", Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Name: "http", Port: int32(port)}}},
	}
}

func TestAddress(t *testing.T) {
	for name, test := range map[string]struct {
		service *corev1.Service
		port    networkingv1.ServiceBackendPort
		want    string
	}{
		"by name":      {service("a", "10.0.0.1", 80), networkingv1.ServiceBackendPort{Name: "http"}, "10.0.0.1:80"},
		"by number":    {service("a", "fd00::1", 80), networkingv1.ServiceBackendPort{Number: 80}, "[fd00::1]:80"},
		"unknown name": {service("a", "10.0.0.1", 80), networkingv1.ServiceBackendPort{Name: "https"}, ""},
		"headless":     {service("a", corev1.ClusterIPNone, 80), networkingv1.ServiceBackendPort{Number: 80}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := address(test.service, test.port)
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func lister(t *testing.T, objects ...runtime.Object) cache.Indexer {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, object := range objects {
		if err := indexer.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return indexer
}

// serviceOf is a Service with the address of a server.
func serviceOf(t *testing.T, server *httptest.Server) *corev1.Service {
	t.Helper()
	ip, number, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	return service("shop", ip, port)
}

func TestRequestsAreForwardedUnchanged(t *testing.T) {
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s of %s", r.URL, r.Host)
	}))
	defer pod.Close()
	c := controller{
		class:     "nginx",
		ingresses: networkingv1listers.NewIngressLister(lister(t, ingress("shop", "nginx", "/project/shop"), ingress("gone", "nginx", "/project/gone"))),
		services:  corev1listers.NewServiceLister(lister(t, serviceOf(t, pod))),
	}
	for path, want := range map[string]string{
		"/project/shop/b?c=d": "200 /project/shop/b?c=d of example.com",
		"/project/gone":       `503 service "gone" not found`,
		"/":                   "404 no Ingress has a rule for this",
	} {
		t.Run(path, func(t *testing.T) {
			answer := httptest.NewRecorder()
			c.handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://example.com"+path, http.NoBody))
			if got := fmt.Sprintf("%d %s", answer.Code, strings.TrimSpace(answer.Body.String())); got != want {
				t.Errorf("answer %q, want %q", got, want)
			}
		})
	}
}

func TestUnreachableServiceIsRetried(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c := controller{
		class:     "nginx",
		ingresses: networkingv1listers.NewIngressLister(lister(t, ingress("shop", "nginx", "/project/shop"))),
		services:  corev1listers.NewServiceLister(lister(t, serviceOf(t, gone))),
	}
	answer := httptest.NewRecorder()
	c.handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/project/shop", http.NoBody))
	if body := answer.Body.String(); answer.Code != http.StatusBadGateway || strings.Count(body, "connection refused") != 3 {
		t.Errorf("answer %d %q, want three failed attempts", answer.Code, body)
	}
}
