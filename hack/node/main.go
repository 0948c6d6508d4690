//go:build linux

// Command node runs a whole Kubernetes on this machine for end-to-end tests: the control plane
// and one real node with kubelet, containerd, CNI and kube-proxy.
//
// It lives in namespaces of its own and in one folder. The machine's processes, network, mounts
// and settings are not touched; cgroups are, and 'down' removes them. Programs that are missing
// are installed with the distribution's packages, which stay.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/layout"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

// options are what several commands need.
type options struct {
	dir    string
	folder layout.Folder
}

func newCommand() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:   "node",
		Short: "A real Kubernetes node on this machine, for end-to-end tests",
		Long: `Node runs a whole Kubernetes on this machine, for end-to-end tests: the control plane and one node
with kubelet, containerd, CNI and kube-proxy. It needs Linux and root.

Everything lives in namespaces of its own and in one folder: the machine's network, mounts and
settings stay as they are, and nothing in the node can reach another machine. On the machine
itself there are only that folder and cgroups, and 'down' removes both. Programs that the node
needs are installed from the distribution's packages when they are missing; those stay.`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(*cobra.Command, []string) (err error) {
			o.folder, err = layout.New(o.dir)
			return err
		},
	}
	root.PersistentFlags().StringVar(&o.dir, "dir", "/var/lib/ringmaster-node", "the node's folder")
	root.AddCommand(newUp(o), newDown(o), newStatus(o), newLoad(o), newExec(o), newInit(o), newRun(o), newProbe(o))
	return root
}
