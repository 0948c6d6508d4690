package controlplane_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ringmaster-project/ringmaster/internal/controlplane"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/process"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

func start(t *testing.T, options controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	options.Assets = rig.Assets(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	began := time.Now()
	cp, err := controlplane.Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(cp.Kill)
	return cp
}

func clientFor(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func createNamespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestControllersRun creates a Deployment, which gets its ReplicaSet and Pod, and the scheduler
// tries to schedule the Pod.
func TestControllersRun(t *testing.T) {
	cp := start(t, controlplane.Options{Dir: rig.TempDir(t), ControllerManager: true, Scheduler: true})
	client := clientFor(t, cp.RESTConfig())

	labels := map[string]string{"app": "web"}
	replicas := int32(1)
	_, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod that was found unschedulable", func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil || len(pods.Items) == 0 {
			return false, err
		}
		for _, condition := range pods.Items[0].Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
				return true, nil
			}
		}
		return false, nil
	})
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(version.GitVersion, "v1.") {
		t.Errorf("the API server calls itself %q", version.GitVersion)
	}
}

func eventually(t *testing.T, description string, condition wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, condition); err != nil {
		t.Fatalf("waiting for %s: %v", description, err)
	}
}

// TestFaults stops, kills, pauses and restarts each component: clients observe an outage, and
// afterwards the same objects on the same ports.
func TestFaults(t *testing.T) {
	cp := start(t, controlplane.Options{Dir: rig.TempDir(t)})
	t.Cleanup(func() {
		if t.Failed() {
			for _, component := range []*controlplane.Component{cp.APIServer, cp.Etcd} {
				t.Logf("the end of the log of %s:\n%s", component.Name(), process.Tail(component.Log(), 30))
			}
		}
	})
	client := clientFor(t, cp.RESTConfig())
	createNamespace(t, client, "kept")

	faults := map[string]struct {
		cause, mend func(context.Context) error
	}{
		"API server stopped": {cp.APIServer.Stop, cp.APIServer.Start},
		"API server killed":  {ignoreContext(cp.APIServer.Kill), cp.APIServer.Start},
		"API server paused":  {ignoreContext(cp.APIServer.Pause), ignoreContext(cp.APIServer.Resume)},
		"etcd stopped":       {cp.Etcd.Stop, cp.Etcd.Start},
		"etcd killed":        {ignoreContext(cp.Etcd.Kill), cp.Etcd.Start},
		"etcd paused":        {ignoreContext(cp.Etcd.Pause), ignoreContext(cp.Etcd.Resume)},
	}
	get := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := client.CoreV1().Namespaces().Get(ctx, "kept", metav1.GetOptions{})
		return err
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			if err := fault.cause(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := get(t.Context()); err == nil {
				t.Error("a read succeeded during the fault")
			}
			if err := fault.mend(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the namespace to be read again", func(ctx context.Context) (bool, error) {
				return get(ctx) == nil, nil
			})
		})
	}
	for _, component := range []*controlplane.Component{cp.APIServer, cp.Etcd} {
		t.Run(component.Name()+" restarted", func(t *testing.T) {
			before := component.PID()
			if err := component.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if component.PID() == before {
				t.Error("it is still the same process")
			}
			eventually(t, "the namespace to be read again", func(ctx context.Context) (bool, error) {
				return get(ctx) == nil, nil
			})
		})
	}
	select {
	case err := <-cp.Failed():
		t.Errorf("a stopped component was reported as a failure: %v", err)
	default:
	}
}

func ignoreContext(f func() error) func(context.Context) error {
	return func(context.Context) error { return f() }
}

// TestRestartKeepsDataPortsAndIdentities starts a control plane twice on the same folder.
func TestRestartKeepsDataPortsAndIdentities(t *testing.T) {
	dir := rig.TempDir(t)
	first := start(t, controlplane.Options{Dir: dir, Durable: true})
	createNamespace(t, clientFor(t, first.RESTConfig()), "kept")
	before := first.RESTConfig()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := first.Stop(ctx); err != nil {
		t.Fatal(err)
	}

	// A node keeps the logs of its other programs in the same folder.
	others := filepath.Join(dir, "logs", "kubelet.log")
	if err := os.WriteFile(others, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}

	second := start(t, controlplane.Options{Dir: dir, Durable: true})
	if content, err := os.ReadFile(others); err != nil || string(content) != "kept" {
		t.Errorf("the log of another program is now %q: %v", content, err)
	}
	if second.URL() != first.URL() {
		t.Errorf("the address changed from %s to %s", first.URL(), second.URL())
	}
	if _, err := clientFor(t, before).CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("with the first access: %v", err)
	}
	fromFile, err := clientcmd.BuildConfigFromFlags("", second.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clientFor(t, fromFile).CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("with the kubeconfig: %v", err)
	}
}

// TestUnknownUserIsForbidden shows that the API server authorizes with RBAC.
func TestUnknownUserIsForbidden(t *testing.T) {
	cp := start(t, controlplane.Options{Dir: rig.TempDir(t)})
	path := filepath.Join(rig.TempDir(t), "kubeconfig")
	if err := cp.WriteKubeconfig(path, pki.Identity{User: "stranger"}); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = clientFor(t, config).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want forbidden", err)
	}
}

// TestFailuresAreReported starts with an unknown argument, and kills a component.
func TestFailuresAreReported(t *testing.T) {
	t.Run("at the start", func(t *testing.T) {
		_, err := controlplane.Start(t.Context(), controlplane.Options{
			Assets:    rig.Assets(t),
			Dir:       rig.TempDir(t),
			ExtraArgs: map[string][]string{controlplane.APIServer: {"--no-such-flag"}},
		})
		if err == nil || !strings.Contains(err.Error(), "no-such-flag") {
			t.Errorf("got %v, want the component's own words", err)
		}
	})
	t.Run("later", func(t *testing.T) {
		cp := start(t, controlplane.Options{Dir: rig.TempDir(t)})
		etcd, err := os.FindProcess(cp.Etcd.PID())
		if err != nil {
			t.Fatal(err)
		}
		if err := etcd.Kill(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-cp.Failed():
			if err == nil || !strings.Contains(err.Error(), "etcd") {
				t.Errorf("got %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the failure was not reported")
		}
	})
	t.Run("no programs", func(t *testing.T) {
		t.Setenv(controlplane.AssetsVariable, rig.TempDir(t))
		_, err := controlplane.FindAssets("somewhere")
		if err == nil || !strings.Contains(err.Error(), "make kubernetes") {
			t.Errorf("got %v, want what to do", err)
		}
	})
	t.Run("ended while starting", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := controlplane.Start(ctx, controlplane.Options{Assets: rig.Assets(t), Dir: rig.TempDir(t)})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
