package app

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// forEachCommand visits a command and all commands below it.
func forEachCommand(command *cobra.Command, visit func(*cobra.Command)) {
	visit(command)
	for _, below := range command.Commands() {
		forEachCommand(below, visit)
	}
}

// TestHelp has an example, a short and a long description for every command, and a group for those in the root's help.
func TestHelp(t *testing.T) {
	for name, root := range map[string]*cobra.Command{"ringmaster": New(), "kubectl-ring": As("kubectl-ring")} {
		forEachCommand(root, func(command *cobra.Command) {
			path := command.CommandPath()
			if command.Example == "" || command.Short == "" || command.Long == "" {
				t.Errorf("%s: its help needs an example, a short and a long description", path)
			}
			if verb, _, _ := strings.Cut(command.Short, " "); strings.HasSuffix(verb, "s") || strings.HasSuffix(command.Short, ".") {
				t.Errorf("%s: %q is not an imperative phrase", path, command.Short)
			}
			for line := range strings.SplitSeq(command.Long, "\n") {
				if len(line) > 92 {
					t.Errorf("%s: a line of its help is longer than 92 characters: %s", path, line)
				}
			}
			if command.Parent() == root && (command.GroupID == "" || !root.ContainsGroup(command.GroupID)) {
				t.Errorf("%s is in no group", path)
			}
			if name == "kubectl-ring" && strings.Contains(command.Example+command.Long, "ringmaster ") {
				t.Errorf("%s: the help of the plugin names the program ringmaster", path)
			}
		})
	}
}

// TestPluginHasProductCommandsOnly leaves out the commands that run the demo and the experiment.
func TestPluginHasProductCommandsOnly(t *testing.T) {
	for _, command := range As("/usr/local/bin/kubectl-ring").Commands() {
		if command.GroupID == groupEvaluate {
			t.Errorf("the plugin has the command %s", command.Name())
		}
	}
}
