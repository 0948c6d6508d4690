//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newExec(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "exec -- COMMAND [ARGUMENT...]",
		Short: "Run a command of this machine in the node's network, with KUBECONFIG set",
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return o.exec(args) },
	}
}

// exec replaces this process by the command, in the node's network namespace and the other namespaces of
// the host.
func (o *options) exec(args []string) error {
	node, err := o.running()
	if err != nil {
		return err
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	network, err := os.Open(node.NetworkPath())
	if err != nil {
		return err
	}
	defer network.Close()
	// Setns applies to this thread, which exec keeps.
	runtime.LockOSThread()
	if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering the node's network (are you root?): %w", err)
	}
	if err := os.Setenv("KUBECONFIG", o.folder.Kubeconfig()); err != nil {
		return err
	}
	return fmt.Errorf("running %s: %w", program, syscall.Exec(program, args, os.Environ()))
}
