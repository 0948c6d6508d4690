package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	corev1listers "k8s.io/client-go/listers/core/v1"
	networkingv1listers "k8s.io/client-go/listers/networking/v1"
)

// controller forwards requests by the rules of Ingresses.
type controller struct {
	class     string
	ingresses networkingv1listers.IngressLister
	services  corev1listers.ServiceLister
}

var errNoRule = errors.New("no Ingress has a rule for this")

// addressKey is the key of the backend's address in the context of a request.
type addressKey struct{}

func (c controller) handler() http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			// The path stays as it is, because the Ingresses have no rewrites.
			r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Context().Value(addressKey{}).(string)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		// A Service balances connections, not requests.
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			log.Printf("%s: %v", r.URL.Path, err)
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, status, err := c.find(r)
		if err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), addressKey{}, to)))
	})
}

// find returns the address of the backend of a request, or an HTTP status and an error.
func (c controller) find(r *http.Request) (string, int, error) {
	all, err := c.ingresses.List(labels.Everything())
	if err != nil {
		return "", http.StatusInternalServerError, err
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	found := route(all, c.class, host, r.URL.Path)
	if found == nil {
		return "", http.StatusNotFound, errNoRule
	}
	service, err := c.services.Services(found.namespace).Get(found.service.Name)
	if err != nil {
		return "", http.StatusServiceUnavailable, err
	}
	to, err := address(service, found.service.Port)
	return to, http.StatusServiceUnavailable, err
}

// dial connects, with several attempts as other ingress controllers: some time after a pod has ended, its
// Service still has the pod's address.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	const tries = 3
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	var errs []error
	for range tries {
		connection, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			return connection, nil
		}
		log.Printf("connecting: %v", err)
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
