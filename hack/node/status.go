//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/pidfile"
)

// errDown is returned by commands that need a running node.
var errDown = errors.New("the node is not running: start it with 'make cluster-up' (or 'node up')")

// running returns the running node.
func (o *options) running() (pidfile.Info, error) {
	node, err := pidfile.Read(o.folder.PIDFile())
	switch {
	case errors.Is(err, fs.ErrPermission):
		return pidfile.Info{}, fmt.Errorf("%w: the folder belongs to root, run this with sudo", err)
	case err != nil:
		return pidfile.Info{}, err
	case node.Alive():
		return node, nil
	case node.PID != 0:
		return pidfile.Info{}, fmt.Errorf("%w; the last node ended by itself, see %s", errDown, o.folder.Log("node"))
	default:
		return pidfile.Info{}, errDown
	}
}

func newStatus(o *options) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show whether the node runs and is healthy; if not, the exit code is 1",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return o.status(command.Context(), output) },
	}
	command.Flags().StringVarP(&output, "output", "o", "", "print one value of the running node: pid, netns or kubeconfig")
	return command
}

func (o *options) status(ctx context.Context, output string) error {
	node, err := o.running()
	if err != nil {
		return err
	}
	switch output {
	case "":
	case "pid":
		fmt.Println(node.PID)
		return nil
	case "netns":
		fmt.Println(node.NetworkPath())
		return nil
	case "kubeconfig":
		fmt.Println(o.folder.Kubeconfig())
		return nil
	default:
		return fmt.Errorf("unknown output %q (available: pid, netns, kubeconfig)", output)
	}
	if err := o.healthy(ctx); err != nil {
		return fmt.Errorf("the node runs as process %d, but %w", node.PID, err)
	}
	fmt.Printf("The node runs as process %d and is healthy. %s\n", node.PID, o.usage())
	return nil
}

// usage says how to use a running node.
func (o *options) usage() string {
	return fmt.Sprintf(`Use it with
  %s get pods --all-namespaces
or with KUBECONFIG=%s from inside its network:
  %s exec --dir %s -- COMMAND`, o.folder.Kubectl(), o.folder.Kubeconfig(), o.folder.Program(), o.folder)
}
