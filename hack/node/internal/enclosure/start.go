//go:build linux

package enclosure

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/layout"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/machine"
)

// namespaces are all that a node has for itself. The user namespace is not among them, because
// kubelets expect real root, and cgroups are shared because containers in them must be found from
// outside when they outlive a crash.
const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET |
	syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// Enclosure is a first process that waits to be let go.
type Enclosure struct {
	PID  int
	gate *os.File
}

// Start starts the copy of this program in the node's folder with args, in new namespaces,
// detached from this process. It waits for Release, and ends if this process ends before: so there
// is never a node that nobody knows of.
func Start(folder layout.Folder, args ...string) (*Enclosure, error) {
	log, err := os.OpenFile(folder.Log("node"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	reader, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reader.Close()

	cmd := command(folder.Program(), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = reader, log, log
	if err := cmd.Start(); err != nil {
		gate.Close()
		return nil, fmt.Errorf("making namespaces for the node: %w: is this a container that may not? "+
			"Then run it with --privileged, or use a virtual machine", err)
	}
	return &Enclosure{PID: cmd.Process.Pid, gate: gate}, nil
}

// Release lets the first process go on.
func (e *Enclosure) Release() error {
	defer e.gate.Close()
	_, err := e.gate.Write([]byte{'\n'})
	return err
}

// Abandon makes the first process end. After Release it does nothing.
func (e *Enclosure) Abandon() { e.gate.Close() }

func command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	// Nothing of the caller's environment, such as a proxy or a KUBECONFIG, is for the node.
	cmd.Env = []string{"PATH=" + machine.Path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true}
	return cmd
}
