// Package app defines the commands of ringmaster: their flags, their help, and which package carries them out.
package app

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
)

const productLong = `Ringmaster runs several instances of a Kubernetes controller: they share the objects
among them, take over from each other, or agree before they disturb a shared system.`

// The groups of commands in help texts.
const (
	groupInspect    = "inspect"
	groupAdminister = "administer"
	groupEvaluate   = "evaluate"
)

// New returns the command ringmaster with all commands below it.
func New() *cobra.Command {
	root := newRoot(productLong + `

To try it, run 'ringmaster up': it runs a real Kubernetes control plane and several
instances of a sample operator on this machine until Ctrl-C, and changes nothing outside
its own folder.`)
	root.AddGroup(&cobra.Group{ID: groupEvaluate, Title: "Evaluate:"})
	root.AddCommand(newUp(), newDemo(), newExperiment())
	usage.Explain(root)
	return root
}

// newRoot returns the root with the commands of the product.
func newRoot(long string) *cobra.Command {
	root := &cobra.Command{
		Use:   "ringmaster",
		Short: "Run more than one instance of a Kubernetes controller",
		Example: `  # the rings of the cluster, and their shards
  ringmaster status

  # why does this shard own the website?
  ringmaster explain website/homepage -n project-bakery`,
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
		groupInspect:    {newStatus(), newExplain(), newDoctor()},
		groupAdminister: {newRole(), newPolicy(), newUnlabel(), newCoordination()},
	} {
		for _, command := range commands {
			command.GroupID = id
			root.AddCommand(command)
		}
	}
	return root
}

// version returns the version of the module, which Go records in the binary.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
