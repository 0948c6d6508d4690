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

// kubectl runs kubectl, the one that we build or the person's own.
func (c *cluster) kubectl(stdin string, args ...string) string {
	c.Helper()
	program := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	if _, err := os.Stat(program); err != nil {
		program = "kubectl"
	}
	return c.types(program, stdin, args...)
}

// ringmaster returns our command, built as it is now.
func (c *cluster) ringmaster() func(stdin string, args ...string) string {
	c.Helper()
	program := filepath.Join(c.TempDir(), "ringmaster")
	build := exec.CommandContext(c.Context(), "go", "build", "-o", program, "./cmd/ringmaster")
	build.Dir = root
	if said, err := build.CombinedOutput(); err != nil {
		c.Fatalf("building ringmaster: %v\n%s", err, said)
	}
	return func(stdin string, args ...string) string {
		c.Helper()
		return c.types(program, stdin, args...)
	}
}

// types runs a command as a person does who expects it to work.
func (c *cluster) types(program, stdin string, args ...string) string {
	c.Helper()
	var out, said bytes.Buffer
	// Some is typed after the test, when its context has ended.
	cmd := exec.CommandContext(context.WithoutCancel(c.Context()), program, args...)
	cmd.Dir = root
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	if err := cmd.Run(); err != nil {
		c.Fatalf("%s %s: %v\n%s%s", filepath.Base(program), strings.Join(args, " "), err, &out, &said)
	}
	return out.String()
}
