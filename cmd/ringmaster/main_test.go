package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{CRDs: []string{"config/crds"}})
}

// cliUser is a user with a kubeconfig who runs commands.
type cliUser struct {
	t          *testing.T
	kubeconfig string
}

func newCLIUser(t *testing.T, r *rig.Rig) *cliUser {
	t.Helper()
	kubeconfig := filepath.Join(rig.TempDir(t), "kubeconfig")
	if err := r.WriteKubeconfig(kubeconfig, pki.Identity{User: "person", Groups: []string{"system:masters"}}); err != nil {
		t.Fatal(err)
	}
	return &cliUser{t: t, kubeconfig: kubeconfig}
}

// ringmaster runs the real binary, and returns its standard output and its standard error.
func (p *cliUser) ringmaster(stdin string, args ...string) (out, stderr string, err error) {
	p.t.Helper()
	return p.run(rig.Build(p.t, "./cmd/ringmaster", rig.Race), stdin, args...)
}

// kubectlApply pipes output into kubectl apply.
func (p *cliUser) kubectlApply(printed string) {
	p.t.Helper()
	_, stderr, err := p.run(filepath.Join(rig.Assets(p.t), "kubectl"), printed, "apply", "--validate=strict", "-f", "-")
	if err != nil {
		p.t.Fatalf("kubectl: %v\n%s", err, stderr)
	}
}

func (p *cliUser) run(program, stdin string, args ...string) (out, stderr string, err error) {
	var outBuffer, errBuffer bytes.Buffer
	cmd := exec.CommandContext(p.t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &outBuffer, &errBuffer
	err = cmd.Run()
	return outBuffer.String(), errBuffer.String(), err
}
