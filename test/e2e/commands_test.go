//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// root is the folder of the repository.
const root = "../.."

// kubectl runs kubectl of KUBEBUILDER_ASSETS, or the one on the PATH.
func (c *cluster) kubectl(stdin string, args ...string) string {
	c.Helper()
	program := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	if _, err := os.Stat(program); err != nil {
		program = "kubectl"
	}
	return c.run(program, stdin, args...)
}

// ringmaster builds the command ringmaster, and returns a function that runs it.
func (c *cluster) ringmaster() func(stdin string, args ...string) string {
	c.Helper()
	program := filepath.Join(c.TempDir(), "ringmaster")
	build := exec.CommandContext(c.Context(), "go", "build", "-o", program, ".")
	build.Dir = filepath.Join(root, "cmd", "ringmaster") // a module of its own
	if output, err := build.CombinedOutput(); err != nil {
		c.Fatalf("building ringmaster: %v\n%s", err, output)
	}
	return func(stdin string, args ...string) string {
		c.Helper()
		return c.run(program, stdin, args...)
	}
}

// run runs a command, and returns its output. It fails the test if the command fails.
func (c *cluster) run(program, stdin string, args ...string) string {
	c.Helper()
	var stdout, stderr bytes.Buffer
	// Cleanups run commands after the test's context has ended.
	cmd := exec.CommandContext(context.WithoutCancel(c.Context()), program, args...)
	cmd.Dir = root
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		c.Fatalf("%s %s: %v\n%s%s", filepath.Base(program), strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String()
}
