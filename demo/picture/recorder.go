//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// recorder runs a program on a pseudo-terminal, and emulates the terminal.
type recorder struct {
	pty   *os.File
	cmd   *exec.Cmd
	ended chan error

	mu       sync.Mutex
	terminal *vt.Emulator
}

// record starts 'ringmaster up' on a terminal of the given size.
func record(ctx context.Context, ringmaster, assets string, width, height int) (*recorder, error) {
	folders := make([]string, 2)
	for i, name := range []string{ringmaster, assets} {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		folders[i] = path
	}
	r := &recorder{ended: make(chan error, 1), terminal: vt.NewEmulator(width, height)}
	r.cmd = exec.CommandContext(ctx, ringmaster, "up", "--assets", assets, "--websites", "60")
	r.cmd.Env = append(os.Environ(),
		"TERM=xterm-256color", "NO_COLOR=", "TZ=UTC",
		// Keeps the paths of this machine out of the picture.
		"PATH="+filepath.Dir(folders[0])+":"+folders[1]+":"+os.Getenv("PATH"))
	// SIGINT makes it stop the processes that it has started.
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(os.Interrupt) }
	var err error
	if r.pty, err = pty.StartWithSize(r.cmd, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)}); err != nil { //nolint:gosec // small
		return nil, fmt.Errorf("starting %s on a pseudo-terminal: %w", ringmaster, err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	go r.emulate()
	return r, nil
}

// emulate passes the output of the program to the emulator until the program exits. Until the live
// view is shown, it also copies the output to stderr.
func (r *recorder) emulate() {
	buffer := make([]byte, 1<<16)
	for {
		n, err := r.pty.Read(buffer)
		if err != nil {
			return
		}
		r.mu.Lock()
		_, _ = r.terminal.Write(buffer[:n])
		live := r.terminal.IsAltScreen()
		r.mu.Unlock()
		if !live {
			_, _ = os.Stderr.Write(buffer[:n])
		}
	}
}

// text returns the text on the terminal.
func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.terminal.String()
}

func (r *recorder) matches(pattern string) bool {
	return regexp.MustCompile(pattern).MatchString(r.text())
}

// waitFor waits until the terminal shows text that matches the pattern.
func (r *recorder) waitFor(ctx context.Context, pattern string) error {
	const limit, interval = 2 * time.Minute, 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !r.matches(pattern) {
		select {
		case <-time.After(interval):
		case err := <-r.ended:
			r.ended <- err
			return fmt.Errorf("ringmaster exited before %q was shown: %w", pattern, err)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %q: %w", pattern, ctx.Err())
		}
	}
	return nil
}

func (r *recorder) press(keys string) error {
	_, err := r.pty.WriteString(keys)
	return err
}

func (r *recorder) frame(caption string, duration time.Duration) frame {
	r.mu.Lock()
	defer r.mu.Unlock()
	return frame{readCells(r.terminal), "ringmaster up – " + caption, duration}
}

// stop presses Ctrl-C, and waits until the program has exited.
func (r *recorder) stop() error {
	defer r.pty.Close()
	const limit = time.Minute
	if err := r.press("\x03"); err != nil {
		return err
	}
	select {
	case err := <-r.ended:
		return err
	case <-time.After(limit):
		return errors.Join(errors.New("ringmaster did not exit after Ctrl-C"), r.cmd.Process.Kill())
	}
}
