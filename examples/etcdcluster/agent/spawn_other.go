//go:build unix && !linux

package agent

import (
	"os"
	"os/exec"
	"syscall"
)

// attributes protect a process from a Ctrl-C in the agent's terminal. Without a parent-death signal, a process
// outlives an agent that was killed, and the next agent reports that its port is in use.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func spawn(cmd *exec.Cmd) error { return cmd.Start() }

func lock(*os.File) error { return nil }
