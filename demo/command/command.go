// Package command is the command line of the demo.
package command

import (
	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
)

// New returns the command with all commands below it. People type 'ringmaster demo'.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:           "ringmaster-demo",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "ringmaster demo"},
		Short:         "Run a sample operator in several instances on this machine",
		SilenceUsage:  true, // errors at run time are not about usage
		SilenceErrors: true, // main prints them
		Args:          usage.NoSuchCommand,
		RunE:          func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(newUp())
	root.AddCommand(newControl()...)
	usage.Explain(root)
	return root
}
