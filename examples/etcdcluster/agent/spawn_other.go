//go:build unix && !linux

package agent

import (
	"os"
	"os/exec"
	"syscall"
)

// attributes make a process one that a Ctrl-C in the agent's terminal does not reach. There is no parent-death signal
// here: a process whose agent was killed goes on, and the next agent says that its port is taken.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func spawn(cmd *exec.Cmd) error { return cmd.Start() }

func lock(*os.File) error { return nil }
