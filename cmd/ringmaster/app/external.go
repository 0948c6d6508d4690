package app

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// The programs with commands of their own. They have dependencies that this program does not need.
const (
	demoProgram       = "ringmaster-demo"
	experimentProgram = "ringmaster-experiment"
)

func newUp() *cobra.Command {
	return external(demoProgram, "make build", &cobra.Command{
		Use:   "up",
		Short: "Run Kubernetes and a sample operator in several instances on this machine until Ctrl-C",
		Long: `Short form of 'ringmaster demo up': runs a real Kubernetes control plane as processes of
this machine, and several instances of a sample operator. 'ringmaster up --help' lists its
flags.`,
		Example: `  # see a sharded operator at work
  ringmaster up`,
	}, "up")
}

func newDemo() *cobra.Command {
	return external(demoProgram, "make build", &cobra.Command{
		Use:   "demo COMMAND",
		Short: "Run the demo on this machine, and scale, kill or pause its instances",
		Long: `Runs a sample operator on a real Kubernetes control plane on this machine, and controls its
processes. The program ` + demoProgram + `, which 'make build' puts beside this one, carries it
out; 'ringmaster demo --help' lists its commands.`,
		Example: `  # run the demo
  ringmaster demo up

  # in another terminal: kill an instance
  ringmaster demo kill webhosting-operator-1`,
	})
}

func newExperiment() *cobra.Command {
	return external(experimentProgram, "make experiment", &cobra.Command{
		Use:   "experiment SCENARIO",
		Short: "Load the sample operator, measure it, and write a report with verdicts",
		Long: `Runs the sample operator in one or several setups, creates, changes and deletes Websites as
a scenario says, measures all processes, and writes a report. The program
` + experimentProgram + `, which 'make experiment' puts beside this one, carries it out;
'ringmaster experiment --help' lists its scenarios and flags.`,
		Example: `  # compare three setups in a short run
  ringmaster experiment basic --setups lead,in-process,external --scale 0.2`,
	})
}

// external makes a command that another program carries out. The arguments of the program are args and those of the user.
func external(program, makeTarget string, command *cobra.Command, args ...string) *cobra.Command {
	command.GroupID = groupEvaluate
	command.DisableFlagParsing = true // the other program parses them
	command.RunE = func(_ *cobra.Command, userArgs []string) error {
		path, err := find(program, makeTarget)
		if err != nil {
			return err
		}
		return run(path, slices.Concat([]string{program}, args, userArgs))
	}
	command.ValidArgsFunction = func(command *cobra.Command, userArgs []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		path, err := find(program, makeTarget)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		request := slices.Concat([]string{cobra.ShellCompRequestCmd}, args, userArgs, []string{toComplete})
		out, err := exec.CommandContext(command.Context(), path, request...).Output()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return parseCompletions(string(out))
	}
	return command
}

// find returns the path of a program beside this one.
func find(program, makeTarget string) (string, error) {
	executable, err := os.Executable()
	if err != nil {
		return "", err
	}
	folder := filepath.Dir(executable)
	path := filepath.Join(folder, executableName(program))
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("program %s not found in %s: build it with '%s'", program, folder, makeTarget)
	}
	return path, nil
}

// parseCompletions reads what another program completes: a line for each completion, and one with the directive, like ":4".
func parseCompletions(out string) ([]cobra.Completion, cobra.ShellCompDirective) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := len(lines) - 1
	number, hasColon := strings.CutPrefix(lines[last], ":")
	directive, err := strconv.Atoi(number)
	if !hasColon || err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:last], cobra.ShellCompDirective(directive)
}
