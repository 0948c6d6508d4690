package app

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
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

// experiment runs that program, and ends as it does.
func experiment(args []string) error {
	folder, err := own()
	if err != nil {
		return err
	}
	path := filepath.Join(folder, experimenter)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("the program %s is missing in %s: build it with 'make experiment'", experimenter, folder)
	}
	// A signal from the terminal reaches it too, and it decides what to do about it.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // and not Ignore, which that program would inherit
	program := exec.Command(path, args...)               //nolint:noctx // it ends by itself
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, os.Stdout, os.Stderr
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	if err := program.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", experimenter, err)
	}
	go func() {
		for range terminated {
			_ = program.Process.Signal(syscall.SIGTERM) // it may have ended
		}
	}()
	var ended *exec.ExitError
	if err := program.Wait(); errors.As(err, &ended) {
		os.Exit(ended.ExitCode()) // it has said why
	} else if err != nil {
		return err
	}
	return nil
}
