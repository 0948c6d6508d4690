//go:build linux

// Command node runs Kubernetes on this machine for end-to-end tests: the control plane and one real
// node with kubelet, containerd, CNI and kube-proxy.
//
// It runs in Linux namespaces of its own, and its files are in one folder. It does not change the
// machine's network, mounts and settings; it makes cgroups, which 'down' removes. Missing programs are
// installed with the distribution's packages, which remain.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
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

// options are shared by the commands.
type options struct {
	dir    string
	folder config.Folder
}

func newCommand() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:   "node",
		Short: "Run a Kubernetes node on this machine for end-to-end tests",
		Long: `Run Kubernetes on this machine for end-to-end tests: the control plane and one node with kubelet,
containerd, CNI and kube-proxy. It needs Linux and root.

The node runs in Linux namespaces of its own, and its files are in one folder. It does not change the
machine's network, mounts and settings, and it cannot reach other machines. 'down' removes its
folder and cgroups. Missing programs are installed with the distribution's packages, which remain.`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(*cobra.Command, []string) (err error) {
			o.folder, err = config.NewFolder(o.dir)
			return err
		},
	}
	root.PersistentFlags().StringVar(&o.dir, "dir", "/var/lib/ringmaster-node", "folder of the node")
	root.AddCommand(newUp(o), newDown(o), newStatus(o), newLoad(o), newExec(o), newInit(o), newRun(o), newProbe(o))
	return root
}
