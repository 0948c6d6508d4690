package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
)

// followed is something that is shown again and again, on a terminal always at the same place.
type followed struct {
	format status.Format
	colour terminal.When
	// changed, if it is there, tells when there is something new. Then it is shown at once, and where nobody looks on
	// a terminal only then.
	changed <-chan struct{}
	// write writes what there is to see now, and to the second writer what else there is to say.
	write func(ctx context.Context, out, said io.Writer, coloured bool) error
}

func (f *followed) run(ctx context.Context, out, said io.Writer) error {
	const home = "\x1b[H\x1b[2J"
	coloured := f.colour.Colours(out)
	last := ""
	for first := true; ctx.Err() == nil; first = false {
		var page, warnings bytes.Buffer // at once, so that nothing flickers
		err := f.write(ctx, &page, &warnings, coloured)
		switch {
		case ctx.Err() != nil:
			continue // it was told to end
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintln(&warnings, "Error:", err, "\nTrying again.")
		}
		now := page.String() + warnings.String()
		if !terminal.Is(out) && now == last {
			f.wait(ctx, false)
			continue
		}
		last = now
		if terminal.Is(out) {
			fmt.Fprint(out, home)
		} else if !first && f.format != status.JSON {
			fmt.Fprintln(out, map[bool]string{true: "---"}[f.format == status.YAML])
		}
		if _, err := page.WriteTo(out); err != nil {
			return err
		}
		if _, err := warnings.WriteTo(said); err != nil {
			return err
		}
		f.wait(ctx, terminal.Is(out))
	}
	return nil
}

// wait returns when it is to be shown again.
func (f *followed) wait(ctx context.Context, onTerminal bool) {
	const pause, shortest = 2 * time.Second, 100 * time.Millisecond
	again := time.After(pause)
	if f.changed != nil {
		if !onTerminal {
			again = nil
		}
		select { // several changes in a row are one to people
		case <-ctx.Done():
		case <-time.After(shortest):
		}
	}
	select {
	case <-ctx.Done():
	case <-again:
	case <-f.changed:
	}
}
