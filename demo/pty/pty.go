//go:build unix

// Package pty opens pseudo-terminals: what is written to one end can be read at the other, and a program
// on it believes that a person sits there.
package pty

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Pair is a pseudo-terminal.
type Pair struct {
	// Person is the end where a person would sit, Terminal the one for a program.
	Person, Terminal *os.File
}

// Open opens a pseudo-terminal of the given size.
func Open(width, height uint16) (*Pair, error) {
	pair, err := open()
	if err != nil {
		return nil, fmt.Errorf("opening a pseudo-terminal: %w", err)
	}
	if err := pair.Resize(width, height); err != nil {
		pair.Close()
		return nil, err
	}
	return pair, nil
}

// Resize makes the terminal larger or smaller. The program on it gets a signal.
func (p *Pair) Resize(width, height uint16) error {
	if err := unix.IoctlSetWinsize(int(p.Person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		return fmt.Errorf("resizing a pseudo-terminal: %w", err)
	}
	return nil
}

// Close closes both ends.
func (p *Pair) Close() {
	p.Person.Close()
	p.Terminal.Close()
}
