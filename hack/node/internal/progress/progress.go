// Package progress prints the steps of a command, and how long each took.
package progress

import (
	"fmt"
	"io"
	"time"
)

// Printer prints steps.
type Printer struct {
	out io.Writer
	now func() time.Time
}

// New returns a printer. It calls now for the time.
func New(out io.Writer, now func() time.Time) *Printer { return &Printer{out, now} }

// Step runs a step. It prints the name first, so that the output shows which step hangs.
func (p *Printer) Step(name string, step func() error) error {
	began := p.now()
	fmt.Fprintf(p.out, "  %s … ", name)
	if err := step(); err != nil {
		fmt.Fprintln(p.out, "failed")
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(p.out, "%.1f s\n", p.now().Sub(began).Seconds())
	return nil
}

// Printf prints a line.
func (p *Printer) Printf(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }
