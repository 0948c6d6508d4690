//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/record"
)

// errDown is what all commands say that need a node when there is none.
var errDown = errors.New("the node is not running: start it with 'make cluster-up' (or 'node up')")

// running returns the record of the node, if it runs.
func (o *options) running() (record.Record, error) {
	node, err := record.Read(o.folder.Record())
	switch {
	case errors.Is(err, fs.ErrPermission):
		return record.Record{}, fmt.Errorf("%w: the node is root's, run this with sudo", err)
	case err != nil:
		return record.Record{}, err
	case node.Alive():
		return node, nil
	case node.PID != 0:
		return record.Record{}, fmt.Errorf("%w; the last one ended by itself, and %s tells why", errDown, o.folder.Log("node"))
	default:
		return record.Record{}, errDown
	}
}

func newStatus(o *options) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "status",
		Short: "Tell whether the node runs and is healthy; the exit code is 1 if not",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return o.status(command.Context(), output) },
	}
	command.Flags().StringVarP(&output, "output", "o", "", "print only one thing of a running node: pid, netns or kubeconfig")
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
		return fmt.Errorf("there is no output %q: choose pid, netns or kubeconfig", output)
	}
	if err := o.healthy(ctx); err != nil {
		return fmt.Errorf("the node runs as process %d, but %w", node.PID, err)
	}
	fmt.Printf("The node runs as process %d and is healthy. %s\n", node.PID, o.usage())
	return nil
}

// usage tells people how to use a running node.
func (o *options) usage() string {
	return fmt.Sprintf(`Use it with
  %s get pods --all-namespaces
or with KUBECONFIG=%s from inside its network:
  %s exec --dir %s -- COMMAND`, o.folder.Kubectl(), o.folder.Kubeconfig(), o.folder.Program(), o.folder)
}
