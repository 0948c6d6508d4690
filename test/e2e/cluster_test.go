//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// testTimeout bounds operations that take a cluster seconds, also on a slow or busy machine.
	testTimeout = 2 * time.Minute
	interval    = 200 * time.Millisecond
)

// cluster is the cluster under test, as one test sees it.
type cluster struct {
	*testing.T
	config *rest.Config
	client kubernetes.Interface
	// namespace is the namespace of the test.
	namespace string
}

// connect returns the cluster with a new namespace, which is removed when the test ends.
func connect(t *testing.T) *cluster {
	t.Helper()
	kubeconfig := os.Getenv("KUBECONFIG")
	if kubeconfig == "" {
		t.Fatal("KUBECONFIG is not set: use 'make e2e', which starts a cluster")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatalf("reading KUBECONFIG: %v", err)
	}
	config.WarningHandler = rest.NoWarnings{} // tests that need them count them
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, config: config, client: client}
	c.makeNamespace()
	return c
}

func (c *cluster) makeNamespace() {
	c.Helper()
	namespace, err := c.client.CoreV1().Namespaces().Create(c.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "e2e-",
			// The manifests must work with the strictest pod security standard.
			Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.Fatalf("making a namespace: %v", err)
	}
	c.namespace = namespace.Name
	c.Cleanup(c.removeNamespace)
	c.Cleanup(func() { // runs before the removal
		if c.Failed() {
			c.dump()
		}
	})
}

func (c *cluster) removeNamespace() {
	ctx := context.WithoutCancel(c.Context()) // the test's context has ended
	namespaces := c.client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, c.namespace, metav1.DeleteOptions{}); err != nil {
		c.Errorf("removing the namespace: %v", err)
		return
	}
	NewWithT(c).Eventually(func() bool {
		_, err := namespaces.Get(ctx, c.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, testTimeout, interval).Should(BeTrue(), "namespace %s is not removed", c.namespace)
}

// image returns the full name of one of our images.
func image(name string) string {
	return fmt.Sprintf("%s/%s:%s", cmp.Or(os.Getenv("E2E_REGISTRY"), "docker.io/ringmaster"), name, cmp.Or(os.Getenv("E2E_TAG"), "dev"))
}

// onNode reports whether this process reaches ClusterIPs.
func onNode() bool { return os.Getenv("E2E_ON_NODE") != "" }

// eventually is Gomega's Eventually, with testTimeout.
func (c *cluster) eventually(condition func(g Gomega), message string, args ...any) {
	c.Helper()
	NewWithT(c).Eventually(c.Context(), condition, testTimeout, interval).
		Should(Succeed(), func() string { return fmt.Sprintf(message, args...) })
}

// logs returns what a pod's container has written.
func (c *cluster) logs(ctx context.Context, pod string, options *corev1.PodLogOptions) (string, error) {
	raw, err := c.client.CoreV1().Pods(c.namespace).GetLogs(pod, options).DoRaw(ctx)
	return string(raw), err
}
