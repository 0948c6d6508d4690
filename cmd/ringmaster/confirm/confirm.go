// Package confirm asks for confirmation before a command removes something that cannot be restored.
//
// It guarantees that all destructive commands behave alike: they have the flags --yes and --dry-run, and proceed only after
// --yes, or after "yes" was typed on a terminal. In all other cases they change nothing.
package confirm

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// NotConfirmedError is returned when the command must not proceed.
type NotConfirmedError struct{ reason string }

func (e *NotConfirmedError) Error() string { return "nothing was changed: " + e.reason }

// Confirmation has the flags of a destructive command.
type Confirmation struct {
	// Yes is set by --yes: the command does not ask.
	Yes bool
	// DryRun is set by --dry-run: the command neither asks nor proceeds.
	DryRun bool
	// IsTerminal reports whether a person can answer on a reader. It is for tests; nil means that the reader is checked.
	IsTerminal func(io.Reader) bool
}

// AddFlags adds --yes and --dry-run to a command.
func (c *Confirmation) AddFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.BoolVar(&c.Yes, "yes", false, "do not ask for confirmation")
	flags.BoolVar(&c.DryRun, "dry-run", false, "only show what would be removed")
}

// Ask reports whether the command may proceed. Call it after the command has shown what it is about to do. The question is one
// sentence that names the objects. It returns a NotConfirmedError if the answer is not yes, or if no person can answer.
func (c *Confirmation) Ask(command *cobra.Command, question string) (bool, error) {
	return c.ask(command.Context(), command.InOrStdin(), command.OutOrStdout(), command.ErrOrStderr(), question)
}

func (c *Confirmation) ask(ctx context.Context, in io.Reader, out, prompt io.Writer, question string) (bool, error) {
	isTerminal := c.IsTerminal
	if isTerminal == nil {
		isTerminal = readsTerminal
	}
	switch {
	case c.DryRun:
		fmt.Fprintln(out, "Nothing was changed.")
		return false, nil
	case c.Yes:
		return true, nil
	case !isTerminal(in):
		return false, &NotConfirmedError{"standard input is not a terminal, so nobody can confirm; check the output above, and add --yes"}
	}
	fmt.Fprintf(prompt, "%s Type yes to continue: ", question)
	answer, err := readLine(ctx, in)
	if err != nil {
		fmt.Fprintln(prompt)
		return false, err
	}
	if answer != "yes" {
		return false, &NotConfirmedError{fmt.Sprintf("the answer was %q; to confirm, run the command again and type yes", answer)}
	}
	return true, nil
}

func readsTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// readLine returns the next line without spaces around it. At the end of the input the line is empty. It does not wait
// longer than the context: Ctrl-C ends the command.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		lines <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return "", &NotConfirmedError{"the command was interrupted"}
	case line := <-lines:
		return line, nil
	}
}
