package app

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/internal/controlplane"
	"github.com/ringmaster-project/ringmaster/internal/up"
)

func newUp() *cobra.Command {
	options := up.Options{}
	assets := ""
	command := &cobra.Command{
		Use:   "up",
		Short: "Run a Kubernetes control plane on this machine until Ctrl-C",
		Long: `Runs etcd, the API server, the controller manager and the scheduler as processes of
this machine, on free ports of the loopback interface, and prints how to reach them.

All data is in one folder. By default that is a new one, which is thrown away at the end.
With --data-dir it is kept, and the next 'up' on the same folder goes on where the last
one ended.

There is no node: Deployments get their ReplicaSets and Pods, but the Pods stay Pending.

Ctrl-C stops everything in good order; a second Ctrl-C at once.`,
		Example: `  # try something and forget it
  ringmaster up

  # keep the data, and the same address, for the next time
  ringmaster up --data-dir ~/ringmaster --port 6443`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if command.Flags().Changed("data-dir") && options.DataDir == "" {
				return errors.New("--data-dir names no folder: leave --data-dir out to throw the data away at the end")
			}
			found, err := findAssets(assets)
			if err != nil {
				return err
			}
			options.Assets, options.Out = found, command.OutOrStdout()
			return up.Run(command.Context(), options)
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.DataDir, "data-dir", "", "folder for all data, kept at the end (default: a new one, thrown away)")
	flags.IntVar(&options.Port, "port", 0, "port of the API server (default: the last one of the same folder, or a free one)")
	flags.StringVar(&assets, "assets", "", "folder with Kubernetes' programs (default: $"+controlplane.AssetsVariable+
		", or 'kubernetes' beside this program)")
	return command
}

// findAssets looks where 'make kubernetes' puts the programs, unless it is told where they are.
func findAssets(named string) (string, error) {
	if named != "" {
		return controlplane.FindAssetsIn(named)
	}
	executable, err := os.Executable()
	if err != nil {
		return "", err
	}
	return controlplane.FindAssets(filepath.Join(filepath.Dir(executable), "kubernetes"))
}
