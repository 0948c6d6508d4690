// Package usage reports invalid flags and arguments, for all command lines of the project. Each error names the help of
// the command.
package usage

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// Explain adds the name of their help to the errors of a command, and of all commands below it, about flags and arguments.
func Explain(command *cobra.Command) {
	command.SetFlagErrorFunc(SeeHelp)
	explainArgs(command)
}

// SeeHelp adds the name of the help of a command to an error.
func SeeHelp(command *cobra.Command, err error) error {
	if clearer := negativeNumber(err, command.Use); clearer != nil {
		err = clearer
	}
	return fmt.Errorf("%w\nSee '%s --help'", err, command.CommandPath())
}

func explainArgs(command *cobra.Command) {
	if validate := command.Args; validate != nil {
		command.Args = func(command *cobra.Command, args []string) error {
			if err := validate(command, args); err != nil {
				return SeeHelp(command, err)
			}
			return nil
		}
	}
	for _, below := range command.Commands() {
		explainArgs(below)
	}
}

// NoSuchCommand refuses the arguments of a command that only groups others, and suggests similar commands.
func NoSuchCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if similar := command.SuggestionsFor(args[0]); len(similar) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(similar, " or "))
	}
	return err
}

// negative matches pflag's error for a number below 0, which looks like a flag.
var negative = regexp.MustCompile(`^unknown shorthand flag: '\d' in (-\d+)$`)

// negativeNumber returns a clearer error for a number below 0, or nil for any other error.
func negativeNumber(err error, use string) error {
	found := negative.FindStringSubmatch(err.Error())
	if found == nil || !strings.Contains(use, "NUMBER") {
		return nil
	}
	return fmt.Errorf("%q is not a valid NUMBER: it must be 0 or more", found[1])
}
