//go:build unix

package screen

import (
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// What is written to take the terminal and to give it back: another screen without a cursor.
const (
	takeScreen = "\x1b[?1049h\x1b[?25l\x1b[2J"
	giveScreen = "\x1b[0m\x1b[?25h\x1b[?1049l"
)

// Fit tells whether a person sits there who can see a picture and press keys.
func Fit(in, out *os.File) bool {
	if kind := os.Getenv("TERM"); kind == "" || kind == "dumb" {
		return false
	}
	if !term.IsTerminal(descriptor(in)) || !term.IsTerminal(descriptor(out)) {
		return false
	}
	// A program in the background is stopped by the kernel as soon as it touches the terminal.
	group, err := unix.IoctlGetInt(descriptor(in), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func descriptor(file *os.File) int { return int(file.Fd()) }

// Screen is the terminal, which is taken until it is closed.
type Screen struct {
	in, out *os.File
	before  *term.State
	guard   *guard
	keys    chan byte
	resized chan os.Signal

	mu     sync.Mutex
	closed bool
	shown  []string
}

// Open takes the terminal.
func Open(in, out *os.File) (*Screen, error) {
	guard, err := startGuard(out)
	if err != nil {
		return nil, err
	}
	before, err := term.MakeRaw(descriptor(in))
	if err != nil {
		guard.dismiss()
		return nil, fmt.Errorf("taking the terminal: %w", err)
	}
	t := &Screen{in: in, out: out, before: before, guard: guard, keys: make(chan byte, 1), resized: make(chan os.Signal, 1)}
	signal.Notify(t.resized, syscall.SIGWINCH)
	if _, err := out.WriteString(takeScreen); err != nil {
		t.Close()
		return nil, fmt.Errorf("taking the terminal: %w", err)
	}
	go t.read()
	return t, nil
}

// read passes keys on until the terminal is gone. There is no way to end a read that waits, so one key
// may be lost after Close.
func (t *Screen) read() {
	defer close(t.keys)
	buffer := make([]byte, 64)
	for {
		n, err := t.in.Read(buffer)
		if err != nil {
			return
		}
		for _, key := range keysIn(buffer[:n]) {
			t.keys <- key
		}
	}
}

// special is what arrows and other special keys send: it begins with an escape, and ends with a letter or a
// tilde.
var special = regexp.MustCompile(`\x1b[\[O][0-9;]*[A-Za-z~]?`)

// keysIn leaves special keys out.
func keysIn(typed []byte) []byte {
	return special.ReplaceAll(typed, nil)
}

// Keys receives what is pressed, and is closed when there is nobody any more.
func (t *Screen) Keys() <-chan byte { return t.keys }

// Resized is told when the size has changed.
func (t *Screen) Resized() <-chan os.Signal { return t.resized }

// Size is how large the terminal is.
func (t *Screen) Size() (width, height int) {
	width, height, err := term.GetSize(descriptor(t.out))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// Draw shows the lines, which have to fit. All of them are drawn anew if wanted, as after a change of
// the size.
func (t *Screen) Draw(lines []string, anew bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return os.ErrClosed
	}
	if anew {
		t.shown = nil
	}
	changes := paint(t.shown, lines)
	t.shown = append([]string{}, lines...)
	if changes == "" {
		return nil
	}
	if _, err := t.out.WriteString(changes); err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	return nil
}

// paint is what has to be written so that a terminal that shows one thing shows another.
func paint(before, after []string) string {
	const (
		hold, show = "\x1b[?2026h", "\x1b[?2026l" // terminals that know it show all changes at once
		restOfLine = "\x1b[K"
		restOfAll  = "\x1b[J"
	)
	var changes strings.Builder
	if before == nil {
		changes.WriteString("\x1b[H" + restOfAll)
	}
	for i, line := range after {
		if i >= len(before) || before[i] != line {
			fmt.Fprintf(&changes, "\x1b[%d;1H%s%s", i+1, line, restOfLine)
		}
	}
	if len(before) > len(after) {
		fmt.Fprintf(&changes, "\x1b[%d;1H%s", len(after)+1, restOfAll)
	}
	if changes.Len() == 0 {
		return ""
	}
	return hold + changes.String() + show
}

// Close gives the terminal back. It may be called more than once.
func (t *Screen) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	signal.Stop(t.resized)
	_, _ = t.out.WriteString(giveScreen) // if that fails, there is no terminal any more
	_ = term.Restore(descriptor(t.in), t.before)
	t.guard.dismiss()
}
