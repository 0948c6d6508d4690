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

// Escape sequences that switch to the alternate screen without a cursor, and back.
const (
	enterAltScreen = "\x1b[?1049h\x1b[?25l\x1b[2J"
	leaveAltScreen = "\x1b[0m\x1b[?25h\x1b[?1049l"
)

// IsInteractive returns true if both files are a terminal that can show the screen, and this
// process is in its foreground.
func IsInteractive(in, out *os.File) bool {
	if kind := os.Getenv("TERM"); kind == "" || kind == "dumb" {
		return false
	}
	if !term.IsTerminal(descriptor(in)) || !term.IsTerminal(descriptor(out)) {
		return false
	}
	// The kernel stops a background process that uses the terminal.
	group, err := unix.IoctlGetInt(descriptor(in), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func descriptor(file *os.File) int { return int(file.Fd()) }

// Screen draws on a terminal until it is closed.
type Screen struct {
	in, out  *os.File
	before   *term.State
	watchdog *watchdog
	keys     chan byte
	resized  chan os.Signal

	mu     sync.Mutex
	closed bool
	lines  []string
}

// Open switches the terminal to raw mode and the alternate screen.
func Open(in, out *os.File) (*Screen, error) {
	watchdog, err := startWatchdog(out)
	if err != nil {
		return nil, err
	}
	before, err := term.MakeRaw(descriptor(in))
	if err != nil {
		watchdog.stop()
		return nil, fmt.Errorf("preparing the terminal: %w", err)
	}
	t := &Screen{in: in, out: out, before: before, watchdog: watchdog, keys: make(chan byte, 1), resized: make(chan os.Signal, 1)}
	signal.Notify(t.resized, syscall.SIGWINCH)
	if _, err := out.WriteString(enterAltScreen); err != nil {
		t.Close()
		return nil, fmt.Errorf("preparing the terminal: %w", err)
	}
	go t.read()
	return t, nil
}

// read sends keys to the channel until the terminal is closed. A blocking read cannot be cancelled,
// so one key may be lost after Close.
func (t *Screen) read() {
	defer close(t.keys)
	buffer := make([]byte, 64)
	for {
		n, err := t.in.Read(buffer)
		if err != nil {
			return
		}
		for _, key := range stripEscapeSequences(buffer[:n]) {
			t.keys <- key
		}
	}
}

// escapeSequence matches the input of arrows and other special keys.
var escapeSequence = regexp.MustCompile(`\x1b[\[O][0-9;]*[A-Za-z~]?`)

// stripEscapeSequences removes special keys.
func stripEscapeSequences(input []byte) []byte {
	return escapeSequence.ReplaceAll(input, nil)
}

// Keys receives the keys that are pressed. It is closed when the terminal is closed.
func (t *Screen) Keys() <-chan byte { return t.keys }

// Resized receives a value when the size has changed.
func (t *Screen) Resized() <-chan os.Signal { return t.resized }

// Size returns the size of the terminal, or 80 × 24 if it is unknown.
func (t *Screen) Size() (width, height int) {
	width, height, err := term.GetSize(descriptor(t.out))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// Draw shows the lines, which must fit the terminal. It writes only changed lines, or all of them
// if redraw is true, as after a change of the size.
func (t *Screen) Draw(lines []string, redraw bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return os.ErrClosed
	}
	if redraw {
		t.lines = nil
	}
	changes := changesBetween(t.lines, lines)
	t.lines = append([]string{}, lines...)
	if changes == "" {
		return nil
	}
	if _, err := t.out.WriteString(changes); err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	return nil
}

// changesBetween returns the output for a terminal that shows one list of lines, so that it shows
// another.
func changesBetween(before, after []string) string {
	const (
		begin, end = "\x1b[?2026h", "\x1b[?2026l" // synchronized output, in terminals that support it
		eraseLine  = "\x1b[K"
		eraseBelow = "\x1b[J"
	)
	var changes strings.Builder
	if before == nil {
		changes.WriteString("\x1b[H" + eraseBelow)
	}
	for i, line := range after {
		if i >= len(before) || before[i] != line {
			// Erase first: after a line of full width the cursor is still in the last column, which
			// terminals would erase.
			fmt.Fprintf(&changes, "\x1b[%d;1H%s%s", i+1, eraseLine, line)
		}
	}
	if len(before) > len(after) {
		fmt.Fprintf(&changes, "\x1b[%d;1H%s", len(after)+1, eraseBelow)
	}
	if changes.Len() == 0 {
		return ""
	}
	return begin + changes.String() + end
}

// Close restores the terminal. It may be called more than once.
func (t *Screen) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	signal.Stop(t.resized)
	_, _ = t.out.WriteString(leaveAltScreen) // fails only if the terminal was closed
	_ = term.Restore(descriptor(t.in), t.before)
	t.watchdog.stop()
}
