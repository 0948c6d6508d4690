package app

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
)

// As returns the command for the name of the program. A program kubectl-ring is a plugin of kubectl: it has only the
// commands of the product, and its help says 'kubectl ring'.
func As(program string) *cobra.Command {
	plugin, isPlugin := strings.CutPrefix(strings.TrimSuffix(filepath.Base(program), ".exe"), "kubectl-")
	if !isPlugin || plugin == "" {
		return New()
	}
	root := newRoot(productLong)
	// In the names of plugins, a dash separates commands, and an underscore stands for a dash.
	typed := "kubectl " + strings.NewReplacer("-", " ", "_", "-").Replace(plugin)
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: typed}
	var names []string
	for _, command := range root.Commands() {
		names = append(names, command.Name())
	}
	usage.Explain(root)
	rename(root, regexp.MustCompile(`\b`+root.Name()+` (`+strings.Join(names, "|")+`)\b`), typed+" $1")
	return root
}

// rename replaces the program's name in the help of a command and of all commands below it.
func rename(command *cobra.Command, mentions *regexp.Regexp, as string) {
	command.Long = mentions.ReplaceAllString(command.Long, as)
	command.Example = mentions.ReplaceAllString(command.Example, as)
	for _, below := range command.Commands() {
		rename(below, mentions, as)
	}
}
