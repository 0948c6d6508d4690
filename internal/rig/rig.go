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

// Timeout is how long a test waits for something that must happen. It is the same for all tests and far above what any of
// it takes: many packages share the machine, and a test that passes does not wait for it.
const Timeout = 4 * time.Minute

// Options say what kind of control plane the tests need.
type Options struct {
	// ControllerManager and Scheduler run those as well. Without a controller manager nothing is
	// garbage-collected, no namespace goes away, and no Deployment does anything.
	ControllerManager, Scheduler bool
	// CRDs are files or folders with custom resource definitions, seen from the repository's root.
	CRDs []string
	// APIServerArgs are more arguments for the API server.
	APIServerArgs []string
	// Programs are what the test binary can run as processes, by name. Only Main looks at them.
	Programs map[string]Program
}

// Rig is a control plane, as one test sees it.
type Rig struct {
	*controlplane.ControlPlane
	// Config and Client are the administrator's access.
	Config *rest.Config
	Client client.Client
	// Clientset is the same access, typed for Kubernetes' own kinds.
	Clientset kubernetes.Interface
	// Namespace is the test's own.
	Namespace string
}

// plane is a control plane that is ready for use.
type plane struct {
	*controlplane.ControlPlane
	config    *rest.Config
	client    client.Client
	clientset kubernetes.Interface
}

// Shared returns the control plane that all tests of the package share.
func Shared(t testing.TB) *Rig {
	t.Helper()
	p, err := session.sharedPlane()
	if err != nil {
		t.Fatalf("starting the shared control plane: %v", err)
	}
	return p.forTest(t)
}

// Private starts a control plane for this test alone, which may break it.
func Private(t testing.TB, options Options) *Rig {
	t.Helper()
	folder, err := session.tempDir("private")
	if err != nil {
		t.Fatal(err)
	}
	p, err := startPlane(folder, options)
	if err != nil {
		t.Fatalf("starting a private control plane: %v", err)
	}
	t.Cleanup(func() {
		p.Kill()
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return p.forTest(t)
}

func startPlane(folder string, options Options) (*plane, error) {
	const limit = 3 * time.Minute // far more than it takes, also on a machine that does ten other things
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
	p := &plane{ControlPlane: cp, config: cp.RESTConfig()}
	if err := p.prepare(options); err != nil {
		cp.Kill()
		return nil, err
	}
	return p, nil
}

func (p *plane) prepare(options Options) error {
	if len(options.CRDs) > 0 {
		paths := make([]string, len(options.CRDs))
		for i, path := range options.CRDs {
			paths[i] = filepath.Join(repository(), path)
		}
		_, err := envtest.InstallCRDs(p.config, envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true})
		if err != nil {
			return fmt.Errorf("installing the custom resource definitions: %w", err)
		}
	}
	var err error
	if p.client, err = client.New(p.config, client.Options{}); err != nil {
		return err
	}
	p.clientset, err = kubernetes.NewForConfig(p.config)
	return err
}

// forTest makes a namespace for the test.
func (p *plane) forTest(t testing.TB) *Rig {
	t.Helper()
	r := &Rig{ControlPlane: p.ControlPlane, Config: p.config, Client: p.client, Clientset: p.clientset}
	return r.For(t)
}

// For returns the same control plane with a namespace for another test, such as a part of this one.
func (r *Rig) For(t testing.TB) *Rig {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: namespacePrefix(t.Name())}}
	if err := r.Client.Create(t.Context(), namespace); err != nil {
		t.Fatalf("making a namespace for the test: %v", err)
	}
	t.Cleanup(func() {
		// It may never go away (there may be no controller manager), but it takes no new objects.
		const limit = 5 * time.Second // the test may have paused the API server
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		_ = r.Client.Delete(ctx, namespace)
	})
	own := *r
	own.Config, own.Namespace = rest.CopyConfig(r.Config), namespace.Name
	return &own
}

// namespacePrefix makes a name that people recognize from a test's.
func namespacePrefix(test string) string {
	const most = 40
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(test), "-")
	return strings.Trim(name[:min(len(name), most)], "-") + "-"
}

// Assets is the folder with Kubernetes' programs.
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

// module is the name of the root module.
const module = "github.com/ringmaster-project/ringmaster"

// repository is the folder of the repository: the nearest one above with the root module's go.mod.
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
