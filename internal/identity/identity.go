// Package identity lets a process of this machine be to the API server what a container in a pod is:
// a ServiceAccount, with a token that names its Pod.
//
// It promises nothing more than that: what the ServiceAccount may do is said by roles.
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

// Cluster is where the process gets its identity.
type Cluster interface {
	// WriteTokenKubeconfig writes a kubeconfig for who has the token in the file.
	WriteTokenKubeconfig(path, tokenFile, server string) error
}

// Request says who needs an identity.
type Request struct {
	// Pod is the object that the token is bound to. It is created when it is missing. What its
	// containers are does not matter, nobody runs them.
	Pod *corev1.Pod
	// Life is how long the token lasts.
	Life time.Duration
	// Folder is where the token and the kubeconfig are written.
	Folder string
	// Server is the API server's address in the kubeconfig.
	Server string
}

// Identity is what a process needs to be somebody.
type Identity struct {
	// Kubeconfig is the path of its kubeconfig.
	Kubeconfig string
	// Pod is the object as it is in the cluster.
	Pod *corev1.Pod
}

// Env is how a pod of ours would be told who it is.
func (i Identity) Env() []string {
	return []string{
		"KUBECONFIG=" + i.Kubeconfig,
		"POD_NAME=" + i.Pod.Name,
		"POD_NAMESPACE=" + i.Pod.Namespace,
	}
}

// Give makes the Pod, asks for a token that is bound to it, as a kubelet does, and writes a kubeconfig
// with that token.
func Give(ctx context.Context, cluster Cluster, clientset kubernetes.Interface, request Request) (Identity, error) {
	pod, err := ensurePod(ctx, clientset, request.Pod)
	if err != nil {
		return Identity{}, err
	}
	token, err := tokenFor(ctx, clientset, pod, request.Life)
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
		return nil, fmt.Errorf("making the Pod %s: %w", pod.Name, err)
	}
	if created.DeletionTimestamp != nil { // and its tokens with it
		return nil, fmt.Errorf("the Pod %s is being deleted: try again when it has gone", pod.Name)
	}
	return created, nil
}

func tokenFor(ctx context.Context, clientset kubernetes.Interface, pod *corev1.Pod, life time.Duration) (string, error) {
	seconds := int64(life / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	answer, err := clientset.CoreV1().ServiceAccounts(pod.Namespace).
		CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token: %w", err)
	}
	return answer.Status.Token, nil
}
