// Package identity creates identities like those of containers for processes on this machine: a
// ServiceAccount token that is bound to a Pod, in a kubeconfig.
//
// It grants no permissions: that is up to roles.
package identity

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Cluster writes kubeconfigs for its API server.
type Cluster interface {
	// WriteTokenKubeconfig writes a kubeconfig with the token in tokenFile.
	WriteTokenKubeconfig(path, tokenFile, server string) error
}

// Request describes an identity.
type Request struct {
	// Pod is the object that the token is bound to. It is created if it does not exist. Its containers
	// are not run.
	Pod *corev1.Pod
	// Validity is the validity of the token.
	Validity time.Duration
	// Folder is the folder for the token and the kubeconfig.
	Folder string
	// Server is the API server's address in the kubeconfig.
	Server string
}

// Identity is the identity of a process.
type Identity struct {
	// Kubeconfig is the path of its kubeconfig.
	Kubeconfig string
	// Pod is the object as it is in the cluster.
	Pod *corev1.Pod
}

// Env returns the environment variables that pods of the project have.
func (i Identity) Env() []string {
	return []string{
		"KUBECONFIG=" + i.Kubeconfig,
		"POD_NAME=" + i.Pod.Name,
		"POD_NAMESPACE=" + i.Pod.Namespace,
	}
}

// Create creates the Pod, requests a token that is bound to it, as a kubelet does, and writes a kubeconfig
// with that token.
func Create(ctx context.Context, cluster Cluster, clientset kubernetes.Interface, request Request) (Identity, error) {
	pod, err := ensurePod(ctx, clientset, request.Pod)
	if err != nil {
		return Identity{}, err
	}
	token, err := TokenFor(ctx, clientset, pod, request.Validity)
	if err != nil {
		return Identity{}, err
	}
	tokenFile := filepath.Join(request.Folder, "token")
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		return Identity{}, fmt.Errorf("writing a token: %w", err)
	}
	identity := Identity{Kubeconfig: filepath.Join(request.Folder, "kubeconfig"), Pod: pod}
	return identity, cluster.WriteTokenKubeconfig(identity.Kubeconfig, tokenFile, request.Server)
}

func ensurePod(ctx context.Context, clientset kubernetes.Interface, pod *corev1.Pod) (*corev1.Pod, error) {
	pods := clientset.CoreV1().Pods(pod.Namespace)
	created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = pods.Get(ctx, pod.Name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("creating the Pod %s: %w", pod.Name, err)
	}
	if created.DeletionTimestamp != nil { // and its tokens with it
		return nil, fmt.Errorf("the Pod %s is being deleted: retry when it is deleted", pod.Name)
	}
	return created, nil
}

// TokenFor requests a token of a Pod's ServiceAccount that is bound to the Pod, as a kubelet does.
func TokenFor(ctx context.Context, clientset kubernetes.Interface, pod *corev1.Pod, validity time.Duration) (string, error) {
	seconds := int64(validity / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	answer, err := clientset.CoreV1().ServiceAccounts(pod.Namespace).
		CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token: %w", err)
	}
	return answer.Status.Token, nil
}
