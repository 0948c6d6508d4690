// Package app is the command line of ringmaster: what a person can type, and which package does it.
package app

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
)

const productLong = `Ringmaster lets many instances of a Kubernetes controller work side by side, stand
in for each other, or agree before they disturb a shared system.`

// The groups of commands in the help.
const (
	groupInspect    = "inspect"
	groupAdminister = "administer"
	groupEvaluate   = "evaluate"
)

// New returns the command ringmaster with all commands below it.
func New() *cobra.Command {
	root := newRoot(productLong + `

Start with 'ringmaster up': it runs a real Kubernetes control plane and a sample operator
in several instances on this machine, for as long as you like, and changes nothing outside
its own folder.`)
	root.AddGroup(&cobra.Group{ID: groupEvaluate, Title: "Evaluate:"})
	root.AddCommand(newUp(), newDemo(), newExperiment())
	usage.Explain(root)
	return root
}

// newRoot returns the root with the product's commands.
func newRoot(long string) *cobra.Command {
	root := &cobra.Command{
		Use:           "ringmaster",
		Short:         "Run more than one instance of a Kubernetes controller",
		Long:          long,
		Version:       version(),
		SilenceUsage:  true, // errors at run time are not about usage
		SilenceErrors: true, // main prints them
		Args:          usage.NoSuchCommand,
		RunE:          func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.AddGroup(
		&cobra.Group{ID: groupInspect, Title: "Inspect:"},
		&cobra.Group{ID: groupAdminister, Title: "Administer:"})
	for id, commands := range map[string][]*cobra.Command{
		groupInspect:    {newStatus(), newDoctor()},
		groupAdminister: {newRole(), newUnlabel(), newCoordination()},
	} {
		for _, command := range commands {
			command.GroupID = id
			root.AddCommand(command)
		}
	}
	return root
}

// version is the module's version, which Go records in the binary.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
