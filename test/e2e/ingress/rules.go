package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// target is the backend of a request.
type target struct {
	namespace string
	service   networkingv1.IngressServiceBackend
}

// route returns the backend of a request by the rules of a class, or nil. The longest path wins, and of two
// paths of the same length the exact one.
func route(ingresses []*networkingv1.Ingress, class, host, path string) *target {
	var best *target
	length := -1
	for _, ingress := range ingresses {
		if ingress.Spec.IngressClassName == nil || *ingress.Spec.IngressClassName != class {
			continue
		}
		for _, rule := range ingress.Spec.Rules {
			if rule.HTTP == nil || rule.Host != "" && rule.Host != host {
				continue
			}
			for _, candidate := range rule.HTTP.Paths {
				matched := matches(&candidate, path)
				if matched > length && candidate.Backend.Service != nil {
					length, best = matched, &target{ingress.Namespace, *candidate.Backend.Service}
				}
			}
		}
	}
	return best
}

// matches returns a number that grows with the length of a match, or -1 if the path does not match. A prefix
// has whole elements: /a matches /a and /a/b, but not /ab.
func matches(rule *networkingv1.HTTPIngressPath, path string) int {
	if rule.PathType != nil && *rule.PathType == networkingv1.PathTypeExact {
		if path == rule.Path {
			return 2*len(path) + 1
		}
		return -1
	}
	prefix := strings.TrimSuffix(rule.Path, "/")
	if path == prefix || strings.HasPrefix(path, prefix+"/") {
		return 2 * len(prefix)
	}
	return -1
}

// address returns the address of a Service's port, which a backend names or numbers.
func address(service *corev1.Service, port networkingv1.ServiceBackendPort) (string, error) {
	if ip := service.Spec.ClusterIP; ip == "" || ip == corev1.ClusterIPNone {
		return "", fmt.Errorf("service %s/%s has no cluster IP", service.Namespace, service.Name)
	}
	for _, known := range service.Spec.Ports {
		if port.Name != "" && known.Name == port.Name || port.Name == "" && known.Port == port.Number {
			return net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(known.Port))), nil
		}
	}
	return "", fmt.Errorf("service %s/%s has no port %s%d", service.Namespace, service.Name, port.Name, port.Number)
}
