package pages

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

// file is what a page is in its ConfigMap.
const file = "index.html"

// missing says what there is not, and with which status a web server would say so.
type missing struct {
	status int
	what   string
}

func (m *missing) Error() string { return m.what }

func unavailable(format string, args ...any) error {
	return &missing{http.StatusServiceUnavailable, fmt.Sprintf(format, args...)}
}

// find follows a path from its Ingress to its page.
func find(ctx context.Context, reader client.Reader, path string) (string, error) {
	ingresses := &networkingv1.IngressList{}
	if err := reader.List(ctx, ingresses); err != nil {
		return "", fmt.Errorf("listing Ingresses: %w", err)
	}
	backend, found := route(ingresses.Items, path)
	if !found {
		return "", &missing{http.StatusNotFound, "no Ingress has the path " + path}
	}
	service := &corev1.Service{}
	if err := reader.Get(ctx, backend, service); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading the Service: %w", err)
	} else if err != nil {
		return "", unavailable("the Ingress names the Service %s, which is not there", backend)
	}
	deployment, err := behind(ctx, reader, service)
	if err != nil {
		return "", err
	}
	return content(ctx, reader, deployment)
}

// route is the Service behind a path: that of the longest path in the Ingresses that it is or is below.
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

// behind is the Deployment whose pods the Service selects.
func behind(ctx context.Context, reader client.Reader, service *corev1.Service) (*appsv1.Deployment, error) {
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
	return nil, unavailable("no Deployment has the pods that the Service %s selects", service.Name)
}

// content is the page that the Deployment's pods find in their volumes.
func content(ctx context.Context, reader client.Reader, deployment *appsv1.Deployment) (string, error) {
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		key := client.ObjectKey{Namespace: deployment.Namespace, Name: volume.ConfigMap.Name}
		mounted := &corev1.ConfigMap{}
		if err := reader.Get(ctx, key, mounted); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading the ConfigMap: %w", err)
		} else if err != nil {
			return "", unavailable("the Deployment mounts the ConfigMap %s, which is not there", key)
		}
		if page, has := mounted.Data[file]; has {
			return page, nil
		}
	}
	return "", unavailable("the Deployment %s mounts no ConfigMap with an %s", deployment.Name, file)
}
