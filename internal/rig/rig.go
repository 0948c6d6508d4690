package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/ringmaster-project/ringmaster/internal/controlplane"
)

// Timeout is how long a test waits for an event that must happen. It is far above what any event takes, because many
// packages share the machine, and a test that passes does not wait for it.
const Timeout = 4 * time.Minute

// Options configure the control plane of tests.
type Options struct {
	// ControllerManager and Scheduler start those as well. Without a controller manager, nothing is
	// garbage-collected, namespaces are not deleted, and Deployments have no effect.
	ControllerManager, Scheduler bool
	// CRDs are files or folders with custom resource definitions, relative to the root of the repository.
	CRDs []string
	// APIServerArgs are additional arguments of the API server.
	APIServerArgs []string
	// Programs are the programs that the test binary can run as processes, by name. Only Main uses them.
	Programs map[string]Program
}

// Rig is a control plane with the namespace of a test.
type Rig struct {
	*controlplane.ControlPlane
	// Config and Client have the permissions of an administrator.
	Config *rest.Config
	Client client.Client
	// Clientset has the same permissions.
	Clientset kubernetes.Interface
	// Namespace is the namespace of the test.
	Namespace string
}

// cluster is a running control plane with its clients.
type cluster struct {
	*controlplane.ControlPlane
	config    *rest.Config
	client    client.Client
	clientset kubernetes.Interface
}

// Shared returns the control plane of the package, with a namespace for the test.
func Shared(t testing.TB) *Rig {
	t.Helper()
	c, err := thisRun.sharedCluster()
	if err != nil {
		t.Fatalf("starting the shared control plane: %v", err)
	}
	return c.forTest(t)
}

// Private starts a control plane for one test, which may break it.
func Private(t testing.TB, options Options) *Rig {
	t.Helper()
	folder, err := thisRun.tempDir("private")
	if err != nil {
		t.Fatal(err)
	}
	c, err := startCluster(folder, options)
	if err != nil {
		t.Fatalf("starting a private control plane: %v", err)
	}
	t.Cleanup(func() {
		c.Kill()
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return c.forTest(t)
}

func startCluster(folder string, options Options) (*cluster, error) {
	const limit = 3 * time.Minute // far more than it takes on a loaded machine
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	assets, err := findAssets()
	if err != nil {
		return nil, err
	}
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Assets:            assets,
		Dir:               folder,
		ControllerManager: options.ControllerManager,
		Scheduler:         options.Scheduler,
		ExtraArgs:         map[string][]string{controlplane.APIServer: options.APIServerArgs},
	})
	if err != nil {
		return nil, err
	}
	c := &cluster{ControlPlane: cp, config: cp.RESTConfig()}
	if err := c.prepare(options); err != nil {
		cp.Kill()
		return nil, err
	}
	return c, nil
}

func (c *cluster) prepare(options Options) error {
	if len(options.CRDs) > 0 {
		paths := make([]string, len(options.CRDs))
		for i, path := range options.CRDs {
			paths[i] = filepath.Join(repository(), path)
		}
		_, err := envtest.InstallCRDs(c.config, envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true})
		if err != nil {
			return fmt.Errorf("installing the custom resource definitions: %w", err)
		}
	}
	var err error
	if c.client, err = client.New(c.config, client.Options{}); err != nil {
		return err
	}
	c.clientset, err = kubernetes.NewForConfig(c.config)
	return err
}

// forTest returns the control plane with a namespace for the test.
func (c *cluster) forTest(t testing.TB) *Rig {
	t.Helper()
	r := &Rig{ControlPlane: c.ControlPlane, Config: c.config, Client: c.client, Clientset: c.clientset}
	return r.For(t)
}

// For returns the same control plane with a namespace for another test, such as a subtest.
func (r *Rig) For(t testing.TB) *Rig {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: namespacePrefix(t.Name())}}
	if err := r.Client.Create(t.Context(), namespace); err != nil {
		t.Fatalf("creating a namespace for the test: %v", err)
	}
	t.Cleanup(func() {
		// Without a controller manager it stays, but accepts no new objects.
		const limit = 5 * time.Second // the test may have paused the API server
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		_ = r.Client.Delete(ctx, namespace)
	})
	own := *r
	own.Config, own.Namespace = rest.CopyConfig(r.Config), namespace.Name
	return &own
}

// namespacePrefix returns a prefix like the name of the test.
func namespacePrefix(test string) string {
	const maxLength = 40
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(test), "-")
	return strings.Trim(name[:min(len(name), maxLength)], "-") + "-"
}

// Assets returns the folder with the programs of Kubernetes.
func Assets(t testing.TB) string {
	t.Helper()
	assets, err := findAssets()
	if err != nil {
		t.Fatal(err)
	}
	return assets
}

func findAssets() (string, error) {
	return controlplane.FindAssets(filepath.Join(repository(), "bin", "kubernetes"))
}

// module is the path of the root module.
const module = "github.com/ringmaster-project/ringmaster"

// repository returns the root of the repository: the nearest parent folder with the go.mod of the root module.
func repository() string {
	folder, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for {
		content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module "+module+"\n") {
			return folder
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			panic("the tests do not run inside the repository")
		}
		folder = parent
	}
}
