package app

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// seeHelp is an error in how a command was typed.
func seeHelp(command *cobra.Command, err error) error {
	if clearer := negativeNumber(err, command.Use); clearer != nil {
		err = clearer
	}
	return fmt.Errorf("%w\nSee '%s --help'", err, command.CommandPath())
}

// explainArgs lets all commands say where help is when they are typed with wrong arguments.
func explainArgs(command *cobra.Command) {
	if validate := command.Args; validate != nil {
		command.Args = func(command *cobra.Command, args []string) error {
			if err := validate(command, args); err != nil {
				return seeHelp(command, err)
			}
			return nil
		}
	}
	for _, below := range command.Commands() {
		explainArgs(below)
	}
}

// noSuchCommand refuses what is no command.
func noSuchCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("there is no command %q", args[0])
	if alike := command.SuggestionsFor(args[0]); len(alike) > 0 {
		err = fmt.Errorf("%w; is it %s?", err, strings.Join(alike, " or "))
	}
	return err
}

// As returns the command as the program was called. Called kubectl-ring it is a plugin of kubectl, and
// 'kubectl ring' is what people type.
func As(program string) *cobra.Command {
	root := New()
	plugin, is := strings.CutPrefix(strings.TrimSuffix(filepath.Base(program), ".exe"), "kubectl-")
	if !is || plugin == "" {
		return root
	}
	// As kubectl finds plugins: a dash goes one level down, an underscore is a dash.
	typed := "kubectl " + strings.NewReplacer("-", " ", "_", "-").Replace(plugin)
	if root.Annotations == nil {
		root.Annotations = map[string]string{}
	}
	root.Annotations[cobra.CommandDisplayNameAnnotation] = typed
	var names []string
	for _, command := range root.Commands() {
		names = append(names, command.Name())
	}
	mentions := regexp.MustCompile(`\b` + root.Name() + ` (` + strings.Join(names, "|") + `)\b`)
	mention(root, mentions, typed+" $1")
	return root
}

// mention changes how a command and all below it speak of commands.
func mention(command *cobra.Command, mentions *regexp.Regexp, as string) {
	command.Long = mentions.ReplaceAllString(command.Long, as)
	command.Example = mentions.ReplaceAllString(command.Example, as)
	for _, below := range command.Commands() {
		mention(below, mentions, as)
	}
}
