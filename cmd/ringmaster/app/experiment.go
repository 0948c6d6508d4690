package app

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// experimenter is the program that makes experiments. It is one of its own, since it brings along Prometheus' engine, which
// the users of the library should not have to.
const experimenter = "ringmaster-experiment"

func newExperiment() *cobra.Command {
	return &cobra.Command{
		Use:   "experiment SCENARIO",
		Short: "Load the sample operator, measure it, and write a report with verdicts",
		Long: `Runs the sample operator in one or several setups, lets users make, change and delete
Websites as a scenario says, measures all processes, and writes a report. It is done by
the program ` + experimenter + `, which 'make experiment' puts beside this one; 'ringmaster
experiment --help' has its scenarios and flags.`,
		Example: `  ringmaster experiment basic --setups lead,in-process,external --scale 0.2`,
		// They are that program's.
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return experiment(args) },
	}
}

// experiment becomes that program.
func experiment(args []string) error {
	folder, err := own()
	if err != nil {
		return err
	}
	path := filepath.Join(folder, experimenter)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("the program %s is missing in %s: build it with 'make experiment'", experimenter, folder)
	}
	// In place of this one, so that signals and the exit code need nobody between.
	if err := syscall.Exec(path, append([]string{experimenter}, args...), os.Environ()); err != nil {
		return fmt.Errorf("starting %s: %w", experimenter, err)
	}
	return nil
}
