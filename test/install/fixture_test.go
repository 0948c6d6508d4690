package install_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{})
}

const (
	testTimeout = rig.Timeout

	withDefault     = "../../config/default"
	withCertManager = "../../config/with-cert-manager"
	withMonitoring  = "../../config/monitoring"
)

// installed is a control plane with only config/default applied.
type installed struct {
	*rig.Rig
	kubeconfig string
}

func install(t *testing.T) *installed {
	t.Helper()
	i := &installed{Rig: rig.Shared(t), kubeconfig: filepath.Join(rig.TempDir(t), "kubeconfig")}
	if err := i.WriteKubeconfig(i.kubeconfig, pki.Identity{User: "person", Groups: []string{"system:masters"}}); err != nil {
		t.Fatal(err)
	}
	i.kubectl(t, "", "apply", "--server-side", "--validate=strict", "-k", withDefault)
	i.kubectl(t, "", "wait", "--for=condition=Established", "crd/controllerrings.sharding.timebertt.dev")
	return i
}

// kubectl runs the real kubectl. A warning fails the test as well, because users would see it at each
// installation.
func (i *installed) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, stderr, err := run(t, filepath.Join(rig.Assets(t), "kubectl"), i.kubeconfig, stdin, args...)
	if err != nil || strings.Contains(stderr, "Warning") {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	return out
}

func run(t *testing.T, program, kubeconfig, stdin string, args ...string) (out, stderr string, err error) {
	t.Helper()
	var outBuffer, errBuffer bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &outBuffer, &errBuffer
	err = cmd.Run()
	return outBuffer.String(), errBuffer.String(), err
}

// build returns all objects of a kustomization.
func build(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	out, stderr, err := run(t, filepath.Join(rig.Assets(t), "kubectl"), "", "", "kustomize", folder)
	if err != nil {
		t.Fatalf("building %s: %v\n%s", folder, err, stderr)
	}
	var objects []*unstructured.Unstructured
	const buffer = 4096
	for documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(out), buffer); ; {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

// only returns the only object of a kind.
func only[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	var found []*T
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			t.Fatalf("%s %s: %v", kind, object.GetName(), err)
		}
		found = append(found, typed)
	}
	if len(found) != 1 {
		t.Fatalf("found %d objects of the kind %s, want 1", len(found), kind)
	}
	return found[0]
}
