package rig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/identity"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
	"github.com/ringmaster-project/ringmaster/internal/pki"
)

// identify creates the ServiceAccount, its bindings and the Pod of a process, writes a kubeconfig with a
// token to the folder, and returns the environment of the process.
func (r *Rig) identify(ctx context.Context, options Process, folder string) (env []string, err error) {
	account := &corev1.ServiceAccount{ObjectMeta: r.meta(options.ServiceAccount)}
	if err := ignoreExists(r.Client.Create(ctx, account)); err != nil {
		return nil, err
	}
	for _, path := range options.Roles {
		if err := r.bindRoles(ctx, filepath.Join(repository(), path), options.ServiceAccount); err != nil {
			return nil, err
		}
	}
	server := r.URL()
	if options.Proxy != nil {
		server = options.Proxy.URL()
	}
	const day = 24 * time.Hour
	created, err := identity.Create(ctx, r, r.Clientset, identity.Request{Pod: r.pod(options), Validity: day, Folder: folder, Server: server})
	return created.Env(), err
}

func (r *Rig) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: r.Namespace}
}

// pod returns the Pod that a process's token is bound to. It is never scheduled.
func (r *Rig) pod(options Process) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: r.meta(options.Name),
		Spec: corev1.PodSpec{
			ServiceAccountName: options.ServiceAccount,
			Containers:         []corev1.Container{{Name: "process", Image: "none"}},
			// A scheduling gate keeps the scheduler from binding it.
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "ringmaster.test/process"}},
		},
	}
}

// TokenRESTConfig returns a client configuration with a new token of a ServiceAccount.
func (r *Rig) TokenRESTConfig(ctx context.Context, namespace, account string) (*rest.Config, error) {
	answer, err := r.Clientset.CoreV1().ServiceAccounts(namespace).
		CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token: %w", err)
	}
	return r.ControlPlane.TokenRESTConfig(answer.Status.Token), nil
}

// PodRESTConfig returns a client configuration with a token that is bound to a new Pod. The Pod is never scheduled.
func (r *Rig) PodRESTConfig(ctx context.Context, namespace, account, name string) (*rest.Config, error) {
	pod := r.pod(Process{Name: name, ServiceAccount: account})
	pod.Namespace = namespace
	if err := r.Client.Create(ctx, pod); err != nil {
		return nil, fmt.Errorf("creating the Pod %s: %w", name, err)
	}
	token, err := identity.TokenFor(ctx, r.Clientset, pod, time.Hour)
	if err != nil {
		return nil, err
	}
	return r.ControlPlane.TokenRESTConfig(token), nil
}

// bindRoles applies the roles in a path and binds the ServiceAccount to them.
func (r *Rig) bindRoles(ctx context.Context, path, account string) error {
	roles, err := readRoles(path)
	if err != nil {
		return err
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: r.Namespace}}
	for _, role := range roles {
		reference := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()}
		var binding client.Object
		if role.GetKind() == "ClusterRole" {
			// Tests share ClusterRoles, and each has its own bindings.
			meta := metav1.ObjectMeta{Name: r.Namespace + ":" + account + ":" + role.GetName()}
			binding = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: reference, Subjects: subjects}
		} else {
			role.SetNamespace(r.Namespace)
			binding = &rbacv1.RoleBinding{ObjectMeta: r.meta(account + ":" + role.GetName()), RoleRef: reference, Subjects: subjects}
		}
		if err := manifest.Apply(ctx, r.Client, "rig", role); err != nil {
			return err
		}
		if err := ignoreExists(r.Client.Create(ctx, binding)); err != nil {
			return fmt.Errorf("binding %s %s: %w", role.GetKind(), role.GetName(), err)
		}
	}
	return nil
}

// readRoles returns all Roles and ClusterRoles in a file, or in the YAML files of a folder.
func readRoles(path string) ([]*unstructured.Unstructured, error) {
	objects, err := manifest.Read(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		return nil, err
	}
	roles := slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool {
		kind := object.GroupVersionKind()
		return kind.Group != rbacv1.GroupName || kind.Kind != "Role" && kind.Kind != "ClusterRole"
	})
	if len(roles) == 0 {
		return nil, fmt.Errorf("no Role or ClusterRole found in %s", path)
	}
	return roles, nil
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Proxy starts a proxy in front of the API server that is closed after the test. Process.Proxy makes a
// process use it.
func (r *Rig) Proxy(t testing.TB) *faultproxy.Proxy {
	t.Helper()
	proxy, err := r.startProxy()
	if err != nil {
		t.Fatalf("starting a proxy: %v", err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxy
}

func (r *Rig) startProxy() (*faultproxy.Proxy, error) {
	pair, err := r.Issue(pki.Identity{User: "faultproxy", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.Config.CAData)
	return faultproxy.Start(faultproxy.Options{Target: r.URL(), Roots: roots, Certificate: certificate})
}
