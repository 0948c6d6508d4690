package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/output"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
)

// watchInterval is the pause between two updates of a command with --watch.
const watchInterval = 2 * time.Second

// watcher prints something repeatedly. A terminal is cleared each time; elsewhere only changes are printed.
type watcher struct {
	format output.Format
	colour terminal.ColourMode
	// changed, if it is set, receives a value on each change. The output is then updated at once and, if it is not a
	// terminal, only then.
	changed <-chan struct{}
	// write writes the current output, and warnings to the second writer.
	write func(ctx context.Context, out, warnings io.Writer, coloured bool) error
}

// run prints until ctx ends. An error ends it only if the first output fails.
func (w *watcher) run(ctx context.Context, out, warnings io.Writer) error {
	const clearScreen = "\x1b[H\x1b[2J"
	coloured := w.colour.Colours(out)
	last := ""
	for first := true; ctx.Err() == nil; first = false {
		var page, pageWarnings bytes.Buffer // written at once, to avoid flicker
		err := w.write(ctx, &page, &pageWarnings, coloured)
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintln(&pageWarnings, "Error:", err, "\nRetrying.")
		}
		current := page.String() + pageWarnings.String()
		if !terminal.Is(out) && current == last {
			w.wait(ctx, false)
			continue
		}
		last = current
		switch {
		case terminal.Is(out):
			fmt.Fprint(out, clearScreen)
		case !first && w.format.IsTable():
			fmt.Fprintln(out)
		case !first && w.format == output.YAML:
			fmt.Fprintln(out, "---")
		}
		if _, err := page.WriteTo(out); err != nil {
			return err
		}
		if _, err := pageWarnings.WriteTo(warnings); err != nil {
			return err
		}
		w.wait(ctx, terminal.Is(out))
	}
	return nil
}

// wait returns when it is time for the next update.
func (w *watcher) wait(ctx context.Context, onTerminal bool) {
	const debounce = 100 * time.Millisecond
	next := time.After(watchInterval)
	if w.changed != nil {
		if !onTerminal {
			next = nil
		}
		select { // combine changes in quick succession
		case <-ctx.Done():
		case <-time.After(debounce):
		}
	}
	select {
	case <-ctx.Done():
	case <-next:
	case <-w.changed:
	}
}
