//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/host"
)

// namespaces are the kinds of namespaces that a node has for itself. It shares the user namespace, because
// kubelets need the host's root, and that of cgroups, so that after a crash the host finds the
// containers that still run.
const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET |
	syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// Sandbox is a first process that waits for Release.
type Sandbox struct {
	PID  int
	pipe *os.File
}

// Start starts the copy of this binary in the node's folder with args, in new namespaces and a new
// session. The process waits for Release, and ends if this process ends before: so every running
// node has a PID file.
func Start(folder config.Folder, args ...string) (*Sandbox, error) {
	log, err := os.OpenFile(folder.Log("node"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reader.Close()

	cmd := command(folder.Program(), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = reader, log, log
	if err := cmd.Start(); err != nil {
		writer.Close()
		return nil, fmt.Errorf("making namespaces for the node: %w; run a container with --privileged, or use a virtual machine", err)
	}
	return &Sandbox{PID: cmd.Process.Pid, pipe: writer}, nil
}

// Release makes the first process continue.
func (s *Sandbox) Release() error {
	defer s.pipe.Close()
	_, err := s.pipe.Write([]byte{'\n'})
	return err
}

// Abandon makes the first process end. After Release it has no effect.
func (s *Sandbox) Abandon() { s.pipe.Close() }

func command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	// The caller's environment, such as a proxy or KUBECONFIG, must not affect the node.
	cmd.Env = []string{"PATH=" + host.Path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true}
	return cmd
}
