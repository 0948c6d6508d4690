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
		Short: "Run Kubernetes and a sample operator in several instances on this machine until Ctrl-C",
		Long: `Runs a real Kubernetes control plane as processes of this machine, on free ports of the
loopback interface, and on it a sample operator in several instances, each a process with
a ServiceAccount of its own.

With --example webhosting, the operator makes a web page of every Website; the instances
share the work as --mode says:

  shard       each has its own share; the sharder, in two replicas, gives them out
  in-process  each has its own share; one of the instances gives them out
  lead        one works on all, the others wait

With --example etcdcluster, three operators manage an etcd cluster together whose members
are in three regions. Each region is a namespace with an operator, an agent, which plays
the kubelet, and a member, a real etcd:

  global      they agree, and one of them acts for all regions at once
  local       each acts for its own region, one at a time

On a terminal it then shows what happens, and takes keys; elsewhere it writes lines. From
another terminal, kubectl works with the kubeconfig that it prints, and so do 'ringmaster
scale', 'kill', 'stop', 'pause', 'resume' and 'websites', or for the etcd cluster 'restart',
'replace' and 'coordination status'. An instance that ends is started again under its name.

There is no node. One is pretended, so that Pods become Ready, but no container runs; the
websites are served by this command from what the cluster's objects say.

All data is in one folder. By default that is a new one, which is thrown away at the end.
With --data-dir it is kept, and the next 'up' on the same folder goes on where the last
one ended.

Ctrl-C stops everything in good order; a second Ctrl-C at once.`,
		Example: `  # see a sharded operator at work
  ringmaster up

  # one instance leads, two wait
  ringmaster up --mode lead

  # see operators of three regions agree
  ringmaster up --example etcdcluster

  # keep the data, and the same addresses, for the next time
  ringmaster up --data-dir ~/ringmaster --port 6443 --page-port 8080

  # only the control plane
  ringmaster up --example none`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if command.Flags().Changed("data-dir") && options.DataDir == "" {
				return errors.New("--data-dir names no folder: leave --data-dir out to throw the data away at the end")
			}
			if options.Assets, err = findAssets(assets); err != nil {
				return err
			}
			if err := refuseOthers(command, options.Example); err != nil {
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
	flags.StringVar(&options.Example, "example", up.ExampleWebhosting, "what to run on the control plane: webhosting, etcdcluster or none")
	flags.StringVar(&options.Mode, "mode", "", "how the instances share the work: shard (default), in-process or lead; "+
		"how the operators of an etcdcluster act: global (default) or local")
	flags.IntVar(&options.Shards, "shards", 3, "number of instances of the operator")
	flags.IntVar(&options.Websites, "websites", 30, "number of websites")
	flags.IntVar(&options.PagePort, "page-port", 0, "port of the websites (default: a free one)")
	flags.BoolVar(&options.Plain, "plain", false, "write lines, also on a terminal")
	flags.StringVar(&options.DataDir, "data-dir", "", "folder for all data, kept at the end (default: a new one, thrown away)")
	flags.IntVar(&options.Port, "port", 0, "port of the API server (default: the last one of the same folder, or a free one)")
	flags.StringVar(&assets, "assets", "", "folder with Kubernetes' programs (default: $"+controlplane.AssetsVariable+
		", or 'kubernetes' beside this program)")
	flags.StringVar(&programs, "programs", "", "folder with the sharder and the sample operators (default: beside this program)")
	return command
}

// findAssets looks where 'make kubernetes' puts the programs, unless it is told where they are.
func findAssets(named string) (string, error) {
	if named != "" {
		return controlplane.FindAssetsIn(named)
	}
	folder, err := own()
	if err != nil {
		return "", err
	}
	return controlplane.FindAssets(filepath.Join(folder, "kubernetes"))
}

// findPrograms looks where 'make build' puts the programs, unless it is told where they are.
func findPrograms(named string, options up.Options) (_ string, err error) {
	if named == "" {
		if named, err = own(); err != nil {
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

// defaultModes are those of the examples.
var defaultModes = map[string]string{up.ExampleWebhosting: view.ModeShard, up.ExampleEtcdcluster: view.ModeGlobal}

// refuseOthers refuses flags that are for another example.
func refuseOthers(command *cobra.Command, example string) error {
	if example == up.ExampleWebhosting {
		return nil
	}
	for _, name := range []string{"shards", "websites", "page-port"} {
		if command.Flags().Changed(name) {
			return usage.SeeHelp(command, fmt.Errorf("--%s is for --example %s", name, up.ExampleWebhosting))
		}
	}
	return nil
}

// own is the folder of this program.
func own() (string, error) {
	executable, err := os.Executable()
	return filepath.Dir(executable), err
}
