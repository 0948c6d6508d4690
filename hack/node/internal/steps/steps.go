// Package steps tells a person who waits what is being done, and afterwards how long it took.
package steps

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

// New makes a printer that asks now for the time.
func New(out io.Writer, now func() time.Time) *Printer { return &Printer{out, now} }

// Do runs a step. The line begins with the step, so that it says what hangs if something does.
func (p *Printer) Do(name string, step func() error) error {
	begun := p.now()
	fmt.Fprintf(p.out, "  %s … ", name)
	if err := step(); err != nil {
		fmt.Fprintln(p.out, "failed")
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(p.out, "%.1f s\n", p.now().Sub(begun).Seconds())
	return nil
}

// Say prints a line.
func (p *Printer) Say(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }
