//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// Without a parent-death signal, only the reaper ends the children of a killed process.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func spawn(cmd *exec.Cmd) error { return cmd.Start() }
