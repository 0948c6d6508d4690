// Package app is the command line of ringmaster: what a person can type, and which package does it.
package app

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

// New returns the command ringmaster with everything below it.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "ringmaster",
		Short: "Run more than one instance of a Kubernetes controller",
		Long: `Ringmaster lets many instances of a Kubernetes controller work side by side, stand
in for each other, or agree before they disturb a shared system.

Start with 'ringmaster up': it runs a real Kubernetes control plane and a sample operator
in several instances on this machine, for as long as you like, and changes nothing outside
its own folder.`,
		Version:       version(),
		SilenceUsage:  true, // a failure at work is no question of usage
		SilenceErrors: true, // main prints them
	}
	root.SetFlagErrorFunc(seeHelp)
	root.Args, root.RunE = noSuchCommand, func(command *cobra.Command, _ []string) error { return command.Help() }
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(newUp(), newStatus(), newCoordination(), newRole(), newUnlabel(), newExperiment())
	root.AddCommand(newControl()...)
	explainArgs(root)
	return root
}

// version is the module's version, which Go notes in the binary.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
