// Package command is the command line of the demo.
package command

import (
	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
)

// New returns the command 'ringmaster demo' with its subcommands.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:         "ringmaster-demo",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "ringmaster demo"},
		Short:       "Run a sample operator in several instances on this machine",
		Long: `Run a sample operator in several instances on this machine, with a real Kubernetes control plane, and
scale, kill or pause its instances.`,
		Example: `  # Run the demo
  ringmaster demo up

  # In another terminal: list its processes, and kill one of them
  ringmaster demo list
  ringmaster demo kill webhosting-operator-1`,
		SilenceUsage:  true, // errors at run time are not about usage
		SilenceErrors: true, // main prints them
		Args:          usage.NoSuchCommand,
		RunE:          func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(newUp(), newList())
	root.AddCommand(newProcessCommands()...)
	root.AddCommand(newScale(), newWebsites(), newRestart(), newReplace())
	usage.Explain(root)
	return root
}
