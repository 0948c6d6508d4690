package rig

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// Process says what to run and as whom.
type Process struct {
	// Name is the name of the process, of the Pod object that its token is bound to, and of its
	// ServiceAccount unless that has a name of its own. It is told to it as POD_NAME.
	Name           string
	ServiceAccount string
	// Roles are files or folders, seen from the repository's root, whose Roles and ClusterRoles
	// the ServiceAccount gets. It may do nothing else.
	Roles []string
	// Binary is the path of an executable, as Build returns it. Without one it is the test binary,
	// which runs the Program of the given name.
	Binary  string
	Program string
	Args    []string
	// Env is added to the environment of the tests.
	Env []string
	// Proxy, when set, stands between the process and the API server.
	Proxy *faultproxy.Proxy
}

// Running is a process of a test. When the test ends it is killed, and what it wrote is in the
// test's log if the test failed.
type Running struct {
	*process.Process
	// Kubeconfig is the path of the process's own kubeconfig.
	Kubeconfig string
	// Log is the path of what it wrote.
	Log string
}

// Start runs a process under an identity of its own. It finds its kubeconfig in KUBECONFIG, and
// itself in POD_NAME, POD_NAMESPACE and POD_UID.
func (r *Rig) Start(t testing.TB, options Process) *Running {
	t.Helper()
	folder, err := session.tempDir(options.Name)
	if err != nil {
		t.Fatal(err)
	}
	if options.ServiceAccount == "" {
		options.ServiceAccount = options.Name
	}
	running := &Running{Kubeconfig: filepath.Join(folder, "kubeconfig"), Log: filepath.Join(folder, "log")}
	env, err := r.identify(t.Context(), options, folder)
	if err != nil {
		t.Fatalf("giving %s an identity: %v", options.Name, err)
	}
	spec := process.Spec{
		Name: options.Name,
		Path: options.Binary,
		Args: options.Args,
		Env:  slices.Concat(os.Environ(), env, []string{"POD_UID=" + options.Name}, options.Env),
		Log:  running.Log,
	}
	if options.Binary == "" {
		spec.Path, err = os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		spec.Env = append(spec.Env, programVariable+"="+options.Program)
	}
	running.Process, err = process.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.end(t) })
	return running
}

// end kills the process and shows what it wrote if that can help.
func (p *Running) end(t testing.TB) {
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		const lines = 200
		t.Logf("--- %s wrote (last %d lines):\n%s\n---", p.Name(), lines, p.Tail(lines))
	}
}

// Terminate asks the process to end (SIGTERM) and does not wait for it.
func (p *Running) Terminate() error { return p.Signal(syscall.SIGTERM) }
