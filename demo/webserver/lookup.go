package webserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageKey is the key of the page in its ConfigMap.
const pageKey = "index.html"

// missingError is an error with the HTTP status that a web server would answer with.
type missingError struct {
	status  int
	message string
}

func (e *missingError) Error() string { return e.message }

func unavailable(format string, args ...any) error {
	return &missingError{http.StatusServiceUnavailable, fmt.Sprintf(format, args...)}
}

// find returns the page of a path: it follows the Ingress to the Service, the Deployment and the
// ConfigMap.
func find(ctx context.Context, reader client.Reader, path string) (string, error) {
	ingresses := &networkingv1.IngressList{}
	if err := reader.List(ctx, ingresses); err != nil {
		return "", fmt.Errorf("listing Ingresses: %w", err)
	}
	backend, found := route(ingresses.Items, path)
	if !found {
		return "", &missingError{http.StatusNotFound, "no Ingress found for the path " + path}
	}
	service := &corev1.Service{}
	if err := reader.Get(ctx, backend, service); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading the Service: %w", err)
	} else if err != nil {
		return "", unavailable("Service %s of the Ingress not found", backend)
	}
	deployment, err := deploymentOf(ctx, reader, service)
	if err != nil {
		return "", err
	}
	return pageOf(ctx, reader, deployment)
}

// route returns the Service behind a path: that of the longest path of an Ingress that matches.
func route(ingresses []networkingv1.Ingress, path string) (backend client.ObjectKey, found bool) {
	longest := -1
	for i := range ingresses {
		for _, rule := range ingresses[i].Spec.Rules {
			if rule.HTTP == nil {
				continue
			}
			for _, candidate := range rule.HTTP.Paths {
				if candidate.Backend.Service == nil || len(candidate.Path) <= longest || !matches(candidate, path) {
					continue
				}
				longest, found = len(candidate.Path), true
				backend = client.ObjectKey{Namespace: ingresses[i].Namespace, Name: candidate.Backend.Service.Name}
			}
		}
	}
	return backend, found
}

func matches(candidate networkingv1.HTTPIngressPath, path string) bool {
	if candidate.PathType != nil && *candidate.PathType == networkingv1.PathTypeExact {
		return path == candidate.Path
	}
	prefix := strings.TrimSuffix(candidate.Path, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// deploymentOf returns the Deployment whose pods the Service selects.
func deploymentOf(ctx context.Context, reader client.Reader, service *corev1.Service) (*appsv1.Deployment, error) {
	deployments := &appsv1.DeploymentList{}
	if err := reader.List(ctx, deployments, client.InNamespace(service.Namespace)); err != nil {
		return nil, fmt.Errorf("listing Deployments: %w", err)
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	for i := range deployments.Items {
		if pods := deployments.Items[i].Spec.Template.Labels; !selector.Empty() && selector.Matches(labels.Set(pods)) {
			return &deployments.Items[i], nil
		}
	}
	return nil, unavailable("no Deployment found for the selector of Service %s", service.Name)
}

// pageOf returns the page in the ConfigMap that the pods of a Deployment mount.
func pageOf(ctx context.Context, reader client.Reader, deployment *appsv1.Deployment) (string, error) {
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		key := client.ObjectKey{Namespace: deployment.Namespace, Name: volume.ConfigMap.Name}
		mounted := &corev1.ConfigMap{}
		if err := reader.Get(ctx, key, mounted); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading the ConfigMap: %w", err)
		} else if err != nil {
			return "", unavailable("ConfigMap %s of the Deployment not found", key)
		}
		if page, found := mounted.Data[pageKey]; found {
			return page, nil
		}
	}
	return "", unavailable("Deployment %s mounts no ConfigMap with the key %s", deployment.Name, pageKey)
}
