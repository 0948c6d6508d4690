//go:build unix

package app

import (
	"fmt"
	"os"
	"syscall"
)

func executableName(program string) string { return program }

// run replaces this process with another program, which then receives signals and sets the exit code itself.
func run(path string, argv []string) error {
	if err := syscall.Exec(path, argv, os.Environ()); err != nil {
		return fmt.Errorf("starting %s: %w", argv[0], err)
	}
	return nil
}
