package app

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

func executableName(program string) string { return program + ".exe" }

// run runs another program and exits with its exit code. Windows sends Ctrl-C to both processes.
func run(path string, argv []string) error {
	cmd := exec.Command(path, argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if exit, isExit := errors.AsType[*exec.ExitError](err); isExit {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		return fmt.Errorf("starting %s: %w", argv[0], err)
	}
	return nil
}
