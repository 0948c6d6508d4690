//go:build linux

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/progress"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/sandbox"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/supervisor"
)

// These commands run inside the node's namespaces. 'up' starts 'probe' and 'init', which starts 'run'.

func newInit(o *options) *cobra.Command {
	var assets string
	command := &cobra.Command{
		Use:    "init",
		Short:  "Run as the first process of a node",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			code, err := sandbox.Init(o.folder, assets, "run", "--dir", string(o.folder), "--assets", assets)
			if err == nil && code != 0 {
				err = fmt.Errorf("the supervisor ended with code %d", code)
			}
			return err
		},
	}
	command.Flags().StringVar(&assets, "assets", "", "folder with Kubernetes' programs")
	return command
}

func newRun(o *options) *cobra.Command {
	var assets string
	command := &cobra.Command{
		Use:    "run",
		Short:  "Start the programs of a node, and stop them on SIGTERM",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return supervisor.New(o.folder, assets, progress.New(os.Stdout, time.Now)).Run(command.Context())
		},
	}
	command.Flags().StringVar(&assets, "assets", "", "folder with Kubernetes' programs")
	return command
}

func newProbe(o *options) *cobra.Command {
	return &cobra.Command{
		Use:    "probe",
		Short:  "Check the kernel's features",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return sandbox.Try(o.folder) },
	}
}
