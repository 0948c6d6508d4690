package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
	"github.com/ringmaster-project/ringmaster/demo/regions"
	"github.com/ringmaster-project/ringmaster/demo/up"
	"github.com/ringmaster-project/ringmaster/demo/view"
	"github.com/ringmaster-project/ringmaster/demo/webhosting"
	"github.com/ringmaster-project/ringmaster/internal/controlplane"
)

func newUp() *cobra.Command {
	options := up.Options{}
	assets, programs := "", ""
	command := &cobra.Command{
		Use:   "up",
		Short: "Run Kubernetes and a sample operator in several instances on this machine",
		Long: `Run a real Kubernetes control plane as processes of this machine, on free ports of the loopback
interface, and on it a sample operator in several instances. Each instance is a process with its own
ServiceAccount. Everything runs until Ctrl-C.

With --example webhosting, the operator creates a web page for every Website. --mode selects how the
instances share the work:

  shard       each instance owns a share of the websites; an external sharder in two replicas assigns them
  in-process  each instance owns a share of the websites; the leader among the instances assigns them
  lead        one instance reconciles all websites, the others are on standby

With --example etcdcluster, three operators manage one etcd cluster with members in three regions. Each
region is a namespace with an operator, an agent in the role of the kubelet, and a member, which is a
real etcd:

  global      the operators coordinate, and one of them acts for all regions at once
  local       each operator acts for its own region, one at a time

On a terminal it shows a live view and takes keys. Elsewhere, or with --plain, it prints a line for each
event. In another terminal, kubectl works with the printed kubeconfig, and 'ringmaster demo --help'
lists the commands that scale, kill, stop or pause its processes. A process that exits is restarted.

In place of a kubelet, a fake node reports all Pods as running, but starts no containers. The demo
itself serves the websites from the objects in the cluster.

All data is in one folder. The default is a temporary folder that is deleted at the end. With
--data-dir the data is kept, and the next 'up' with the same folder continues with it.

Ctrl-C stops everything gracefully; a second Ctrl-C stops it immediately.`,
		Example: `  # Run a sharded operator
  ringmaster up

  # Run one leader and two standby instances
  ringmaster up --mode lead

  # Run the operators of three regions, which coordinate
  ringmaster up --example etcdcluster

  # Keep the data and the addresses for the next run
  ringmaster up --data-dir ~/ringmaster --port 6443 --page-port 8080

  # Run only the control plane
  ringmaster up --example none`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if command.Flags().Changed("data-dir") && options.DataDir == "" {
				return errors.New("--data-dir is empty: name a folder, or omit --data-dir to use a temporary folder")
			}
			if options.Assets, err = findAssets(assets); err != nil {
				return err
			}
			if err := rejectFlagsOfOtherExample(command, options.Example); err != nil {
				return err
			}
			options.Mode = cmp.Or(options.Mode, defaultModes[options.Example])
			if options.Programs, err = findPrograms(programs, options); err != nil {
				return err
			}
			options.In, options.Out = os.Stdin, command.OutOrStdout()
			return up.Run(command.Context(), options)
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Example, "example", up.ExampleWebhosting, "example to run on the control plane: webhosting, etcdcluster or none")
	flags.StringVar(&options.Mode, "mode", "", "for webhosting: shard (default), in-process or lead; "+
		"for etcdcluster: global (default) or local")
	flags.IntVar(&options.Shards, "shards", 3, "number of instances of the operator (webhosting)")
	flags.IntVar(&options.Websites, "websites", 30, "number of websites to create (webhosting)")
	flags.IntVar(&options.PagePort, "page-port", 0, "port of the websites (default: a free port)")
	flags.BoolVar(&options.Plain, "plain", false, "print a line for each event, also on a terminal")
	flags.StringVar(&options.DataDir, "data-dir", "", "folder for all data, kept at the end (default: a temporary folder, deleted at the end)")
	flags.IntVar(&options.Port, "port", 0, "port of the API server (default: the port of the last run in the same folder, or a free port)")
	flags.StringVar(&assets, "assets", "", "folder with the programs of Kubernetes (default: $"+controlplane.AssetsVariable+
		", or 'kubernetes' beside this program)")
	flags.StringVar(&programs, "programs", "", "folder with the sharder and the sample operators (default: beside this program)")
	return command
}

// findAssets returns the folder with the programs of Kubernetes: the named one, or where 'make
// kubernetes' puts them.
func findAssets(named string) (string, error) {
	if named != "" {
		return controlplane.FindAssetsIn(named)
	}
	folder, err := programDir()
	if err != nil {
		return "", err
	}
	return controlplane.FindAssets(filepath.Join(folder, "kubernetes"))
}

// findPrograms returns the folder with our programs: the named one, or where 'make build' puts
// them.
func findPrograms(named string, options up.Options) (_ string, err error) {
	if named == "" {
		if named, err = programDir(); err != nil {
			return "", err
		}
	}
	switch options.Example {
	case up.ExampleWebhosting:
		return webhosting.FindPrograms(named, options.Mode)
	case up.ExampleEtcdcluster:
		return regions.FindPrograms(named)
	}
	return "", nil
}

// defaultModes has the default mode of each example.
var defaultModes = map[string]string{up.ExampleWebhosting: view.ModeShard, up.ExampleEtcdcluster: view.ModeGlobal}

// rejectFlagsOfOtherExample returns an error for a flag that only another example uses.
func rejectFlagsOfOtherExample(command *cobra.Command, example string) error {
	if example == up.ExampleWebhosting {
		return nil
	}
	for _, name := range []string{"shards", "websites", "page-port"} {
		if command.Flags().Changed(name) {
			return usage.SeeHelp(command, fmt.Errorf("--%s is only valid with --example %s", name, up.ExampleWebhosting))
		}
	}
	return nil
}

// programDir returns the folder of this program.
func programDir() (string, error) {
	executable, err := os.Executable()
	return filepath.Dir(executable), err
}
