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

// Process describes a process and its identity.
type Process struct {
	// Name is the name of the process, of the Pod that its token is bound to, and by default of its
	// ServiceAccount. The process has it in POD_NAME.
	Name           string
	ServiceAccount string
	// Roles are files or folders, relative to the root of the repository, with the Roles and ClusterRoles
	// of the ServiceAccount. It has no other permissions.
	Roles []string
	// Binary is the path of an executable, as returned by Build. If it is empty, the test binary runs
	// Program.
	Binary  string
	Program string
	Args    []string
	// Env is added to the environment of the test binary.
	Env []string
	// Proxy is between the process and the API server, if it is set.
	Proxy *faultproxy.Proxy
}

// Running is a process of a test. It is killed after the test, and if the test failed, its output is in
// the test's log.
type Running struct {
	*process.Process
	// Kubeconfig is the path of the process's own kubeconfig.
	Kubeconfig string
	// Log is the path of its log.
	Log string
}

// Start starts a process with its own identity: KUBECONFIG, POD_NAME, POD_NAMESPACE and POD_UID are in its
// environment.
func (r *Rig) Start(t testing.TB, options Process) *Running {
	t.Helper()
	folder, err := thisRun.tempDir(options.Name)
	if err != nil {
		t.Fatal(err)
	}
	if options.ServiceAccount == "" {
		options.ServiceAccount = options.Name
	}
	running := &Running{Kubeconfig: filepath.Join(folder, "kubeconfig"), Log: filepath.Join(folder, "log")}
	env, err := r.identify(t.Context(), options, folder)
	if err != nil {
		t.Fatalf("creating the identity of %s: %v", options.Name, err)
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

// end kills the process, and logs its output if the test failed.
func (p *Running) end(t testing.TB) {
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		const lines = 200
		t.Logf("--- %s wrote (last %d lines):\n%s\n---", p.Name(), lines, p.Tail(lines))
	}
}

// Terminate sends SIGTERM and does not wait for the process to end.
func (p *Running) Terminate() error { return p.Signal(syscall.SIGTERM) }
