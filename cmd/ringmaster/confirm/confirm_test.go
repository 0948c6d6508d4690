package confirm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func onTerminal(io.Reader) bool { return true }

func TestAsk(t *testing.T) {
	t.Parallel()
	const prompted = "Remove 3 labels? Type yes to continue: "
	for name, test := range map[string]struct {
		args       []string
		isTerminal func(io.Reader) bool
		input      string

		proceeds            bool
		output, prompt, err string
	}{
		"yes on a terminal":             {isTerminal: onTerminal, input: "yes\n", proceeds: true, prompt: prompted},
		"yes with spaces":               {isTerminal: onTerminal, input: " yes \n", proceeds: true, prompt: prompted},
		"y on a terminal":               {isTerminal: onTerminal, input: "y\n", prompt: prompted, err: `nothing was changed: the answer was "y"`},
		"an empty line on a terminal":   {isTerminal: onTerminal, input: "\n", prompt: prompted, err: `the answer was ""`},
		"end of input on a terminal":    {isTerminal: onTerminal, prompt: prompted, err: `the answer was ""`},
		"yes in a pipe":                 {input: "yes\n", err: "standard input is not a terminal, so nobody can confirm; check the output above, and add --yes"},
		"--yes in a pipe":               {args: []string{"--yes"}, proceeds: true},
		"--yes on a terminal":           {args: []string{"--yes"}, isTerminal: onTerminal, proceeds: true},
		"--dry-run in a pipe":           {args: []string{"--dry-run"}, output: "Nothing was changed.\n"},
		"--dry-run on a terminal":       {args: []string{"--dry-run"}, isTerminal: onTerminal, output: "Nothing was changed.\n"},
		"--dry-run together with --yes": {args: []string{"--dry-run", "--yes"}, output: "Nothing was changed.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Confirmation{IsTerminal: test.isTerminal}
			var output, prompt bytes.Buffer
			var proceeds bool
			command := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(command *cobra.Command, _ []string) (err error) {
				proceeds, err = c.Ask(command, "Remove 3 labels?")
				return err
			}}
			c.AddFlags(command)
			command.SetArgs(test.args)
			command.SetIn(strings.NewReader(test.input))
			command.SetOut(&output)
			command.SetErr(&prompt)
			err := command.ExecuteContext(t.Context())
			if proceeds != test.proceeds || output.String() != test.output || prompt.String() != test.prompt {
				t.Errorf("proceeds %t, output %q, prompt %q", proceeds, output.String(), prompt.String())
			}
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if refused := (*NotConfirmedError)(nil); test.err != "" && !errors.As(err, &refused) {
				t.Errorf("error %T", err)
			}
		})
	}
}

func TestAskEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reader, writer := io.Pipe() // nobody types
	defer writer.Close()
	c := &Confirmation{IsTerminal: onTerminal}
	proceeds, err := c.ask(ctx, reader, io.Discard, io.Discard, "Remove it?")
	if proceeds || err == nil || !strings.Contains(err.Error(), "nothing was changed: the command was interrupted") {
		t.Errorf("proceeds %t, error %v", proceeds, err)
	}
}

func TestPipeIsNotTerminal(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	if readsTerminal(reader) || readsTerminal(strings.NewReader("yes")) {
		t.Error("a pipe counts as a terminal")
	}
}
