package fakenode_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/ringmaster-project/ringmaster/demo/fakenode"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) {
	rig.Main(m, rig.Options{ControllerManager: true, Scheduler: true})
}

const name = "fake"

// start runs the node, and returns a client with its permissions.
func start(t *testing.T, r *rig.Rig, processes func(namespace, name string) (fakenode.Process, bool)) (kubernetes.Interface, *fakenode.Node) {
	t.Helper()
	kubeconfig := filepath.Join(rig.TempDir(t), "kubeconfig")
	if err := r.WriteKubeconfig(kubeconfig, fakenode.Identity(name)); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	n := fakenode.New(fakenode.Options{
		Name: name, Version: "v1.0.0", Clientset: clientset, Processes: processes, Report: func(err error) { t.Log(err) },
	})
	go func() {
		defer close(done)
		n.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return clientset, n
}

func deployment(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "hello"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "hello"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{Name: "init", Image: "none"}},
					Containers:     []corev1.Container{{Name: "hello", Image: "none"}},
				},
			},
		},
	}
}

// TestPodsBecomeReadyAndTerminate creates and deletes a Deployment with more pods than a kubelet
// accepts.
func TestPodsBecomeReadyAndTerminate(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(2 * time.Minute)
	r := rig.Shared(t)
	start(t, r, nil)
	const many = 120
	deployments, pods := r.Clientset.AppsV1().Deployments(r.Namespace), r.Clientset.CoreV1().Pods(r.Namespace)
	_, err := deployments.Create(t.Context(), deployment(many), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	available := func() (int32, error) {
		found, err := deployments.Get(t.Context(), "hello", metav1.GetOptions{})
		return found.Status.AvailableReplicas, err
	}
	g.Eventually(available).Should(BeEquivalentTo(many))

	list, err := pods.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	addresses := map[string]bool{}
	for i := range list.Items {
		addresses[list.Items[i].Status.PodIP] = true
	}
	g.Expect(addresses).To(HaveLen(many), "each pod has its own address")

	victim := list.Items[0].Name
	g.Expect(pods.Delete(t.Context(), victim, metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(func() bool {
		_, err := pods.Get(t.Context(), victim, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).Should(BeTrue(), "the deletion completes without force")
	g.Eventually(available).Should(BeEquivalentTo(many), "the pod is replaced")

	g.Expect(deployments.Delete(t.Context(), "hello", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})).To(Succeed())
	g.Eventually(func() (int, error) {
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		return len(list.Items), err
	}).Should(BeZero())
}

// TestNodeHasOnlyNodePermissions expects the node to be Ready, and to be refused what nodes must
// not do.
func TestNodeHasOnlyNodePermissions(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(2 * time.Minute)
	r := rig.Shared(t)
	own, _ := start(t, r, nil)
	g.Eventually(func() (string, error) {
		found, err := r.Clientset.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		for _, condition := range found.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return fmt.Sprint(condition.Status, len(found.Spec.Taints)), nil
			}
		}
		return "", nil
	}).Should(Equal("True0"), "it is ready, and has no taints")
	_, err := own.CoreV1().ConfigMaps(r.Namespace).List(t.Context(), metav1.ListOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "a node must not list ConfigMaps: %v", err)
}

// TestPodStatusFollowsProcess changes the state of the process behind a pod.
func TestPodStatusFollowsProcess(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(2 * time.Minute)
	r := rig.Shared(t)
	var process atomic.Pointer[fakenode.Process]
	process.Store(&fakenode.Process{Running: true})
	_, n := start(t, r, func(namespace, name string) (fakenode.Process, bool) {
		return *process.Load(), namespace == r.Namespace && name == "process"
	})
	pods := r.Clientset.CoreV1().Pods(r.Namespace)
	for _, pod := range []string{"process", "no-process"} {
		_, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: pod},
			Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "main", Image: "none"}}},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	status := func(pod string) func() (string, error) {
		return func() (string, error) {
			found, err := pods.Get(t.Context(), pod, metav1.GetOptions{})
			if err != nil || len(found.Status.ContainerStatuses) == 0 {
				return "", err
			}
			container := found.Status.ContainerStatuses[0]
			if container.State.Waiting != nil {
				return fmt.Sprintf("%t %d %s", container.Ready, container.RestartCount, container.State.Waiting.Reason), nil
			}
			return fmt.Sprintf("%t %d", container.Ready, container.RestartCount), nil
		}
	}
	g.Eventually(status("process")).Should(Equal("true 0"))
	process.Store(&fakenode.Process{Restarts: 1, Reason: "Killed"})
	n.Enqueue(r.Namespace, "process")
	g.Eventually(status("process")).Should(Equal("false 1 Killed"))
	process.Store(&fakenode.Process{Running: true, Restarts: 1})
	n.Enqueue(r.Namespace, "process")
	g.Eventually(status("process")).Should(Equal("true 1"))
	g.Eventually(status("no-process")).Should(Equal("true 0"))
}
