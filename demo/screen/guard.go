//go:build unix

package screen

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// guardVariable, when set, makes this executable a guard and nothing else.
const guardVariable = "RINGMASTER_TERMINAL_GUARD"

// dismissed is what a guard is told when there is nothing to give back any more.
const dismissed = "dismissed\n"

// A program guards its own terminal by starting itself again: there is no other executable to find.
// This has to be decided before main or the tests run.
func init() {
	if os.Getenv(guardVariable) == "" {
		return
	}
	// It lives exactly as long as the process that it is for.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	watch(os.Stdin, os.Stderr, os.Stdout)
	os.Exit(0)
}

// watch gives the terminal back when the program that has it ends without having done so.
func watch(program io.Reader, terminal *os.File, ready io.Writer) {
	before, err := term.GetState(descriptor(terminal))
	fmt.Fprintln(ready, "ready")
	if said, _ := io.ReadAll(program); string(said) == dismissed || err != nil {
		return
	}
	_, _ = terminal.WriteString(giveScreen) // there is nobody to tell if that fails
	_ = term.Restore(descriptor(terminal), before)
}

// guard is this process's end of the connection to its guard.
type guard struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// startGuard returns when the guard knows how the terminal is now.
func startGuard(terminal *os.File) (*guard, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this executable, to guard the terminal: %w", err)
	}
	cmd := exec.Command(executable)
	cmd.Env = append(os.Environ(), guardVariable+"=1")
	cmd.Dir = "/" // hold on to nobody's working directory
	cmd.Stderr = terminal
	// A session of its own: a signal to this process's group does not reach it, and the kernel lets it
	// change the terminal although it is not in the foreground there.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting to the terminal's guard: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting to the terminal's guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the terminal's guard: %w", err)
	}
	g := &guard{cmd, stdin}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		g.dismiss()
		return nil, fmt.Errorf("starting the terminal's guard: %w", err)
	}
	return g, nil
}

// dismiss ends the guard.
func (g *guard) dismiss() {
	_, _ = io.WriteString(g.stdin, dismissed) // it may have been killed
	g.stdin.Close()
	_ = g.cmd.Wait()
}
