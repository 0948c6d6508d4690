package rig

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/pki"
)

// identify makes the ServiceAccount, its bindings and the Pod of a process, and writes a
// kubeconfig with a token for them.
func (r *Rig) identify(ctx context.Context, options Process, folder, kubeconfig string) error {
	account := &corev1.ServiceAccount{ObjectMeta: r.meta(options.ServiceAccount)}
	if err := ignoreExists(r.Client.Create(ctx, account)); err != nil {
		return err
	}
	for _, path := range options.Roles {
		if err := r.bindRoles(ctx, filepath.Join(repository(), path), options.ServiceAccount); err != nil {
			return err
		}
	}
	token, err := r.token(ctx, options)
	if err != nil {
		return err
	}
	tokenFile := filepath.Join(folder, "token")
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		return err
	}
	server := r.URL()
	if options.Proxy != nil {
		server = options.Proxy.URL()
	}
	return r.WriteTokenKubeconfig(kubeconfig, tokenFile, server)
}

func (r *Rig) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: r.Namespace}
}

// token asks for a token that is bound to a Pod with the process's name, as a kubelet does. The
// Pod is never scheduled: it is there so that the token names it.
func (r *Rig) token(ctx context.Context, options Process) (string, error) {
	pod := &corev1.Pod{
		ObjectMeta: r.meta(options.Name),
		Spec: corev1.PodSpec{
			ServiceAccountName: options.ServiceAccount,
			Containers:         []corev1.Container{{Name: "process", Image: "none"}},
			// A scheduler that runs as well must leave it alone.
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "ringmaster.test/process"}},
		},
	}
	if err := ignoreExists(r.Client.Create(ctx, pod)); err != nil {
		return "", err
	}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return "", err
	}
	const day = int64(24 * 60 * 60)
	life := day
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &life,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	answer, err := r.Clientset.CoreV1().ServiceAccounts(r.Namespace).
		CreateToken(ctx, options.ServiceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token: %w", err)
	}
	return answer.Status.Token, nil
}

// TokenRESTConfig is the access of a ServiceAccount, with a token of its own.
func (r *Rig) TokenRESTConfig(ctx context.Context, namespace, account string) (*rest.Config, error) {
	answer, err := r.Clientset.CoreV1().ServiceAccounts(namespace).
		CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a token: %w", err)
	}
	return r.ControlPlane.TokenRESTConfig(answer.Status.Token), nil
}

// bindRoles applies the roles that are found under path and binds the ServiceAccount to them.
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
			// The same role from two tests is the same role; the bindings are each test's own.
			meta := metav1.ObjectMeta{Name: r.Namespace + ":" + account + ":" + role.GetName()}
			binding = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: reference, Subjects: subjects}
		} else {
			role.SetNamespace(r.Namespace)
			binding = &rbacv1.RoleBinding{ObjectMeta: r.meta(account + ":" + role.GetName()), RoleRef: reference, Subjects: subjects}
		}
		apply := client.ApplyConfigurationFromUnstructured(role)
		if err := r.Client.Apply(ctx, apply, client.FieldOwner("rig"), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s %s: %w", role.GetKind(), role.GetName(), err)
		}
		if err := ignoreExists(r.Client.Create(ctx, binding)); err != nil {
			return fmt.Errorf("binding %s %s: %w", role.GetKind(), role.GetName(), err)
		}
	}
	return nil
}

// readRoles finds all Roles and ClusterRoles in a file, or in the YAML files of a folder.
func readRoles(path string) ([]*unstructured.Unstructured, error) {
	var roles []*unstructured.Unstructured
	err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		found, err := decodeRoles(content)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		roles = append(roles, found...)
		return nil
	})
	if err == nil && len(roles) == 0 {
		err = fmt.Errorf("no Role or ClusterRole is in %s", path)
	}
	return roles, err
}

func decodeRoles(content []byte) ([]*unstructured.Unstructured, error) {
	const buffer = 4096
	var roles []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), buffer)
	for {
		// Not every file beside roles is an object: a kustomization has no kind.
		content := map[string]any{}
		if err := documents.Decode(&content); errors.Is(err, io.EOF) {
			return roles, nil
		} else if err != nil {
			return nil, err
		}
		roles = append(roles, rolesIn(&unstructured.Unstructured{Object: content})...)
	}
}

// rolesIn returns the object if it is a role, and those that are in it if it is a list.
func rolesIn(object *unstructured.Unstructured) (roles []*unstructured.Unstructured) {
	switch kind := object.GetKind(); {
	case object.IsList():
		_ = object.EachListItem(func(item runtime.Object) error {
			roles = append(roles, rolesIn(item.(*unstructured.Unstructured))...)
			return nil
		})
	case object.GroupVersionKind().Group == rbacv1.GroupName && (kind == "Role" || kind == "ClusterRole"):
		roles = append(roles, object)
	}
	return roles
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Proxy starts a proxy in front of the API server that ends with the test. Processes are pointed
// at it with Process.Proxy.
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
