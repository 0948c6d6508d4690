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

// watchdogVariable makes this executable run as a watchdog.
const watchdogVariable = "RINGMASTER_TERMINAL_WATCHDOG"

// restored is the message to the watchdog that the program has restored the terminal itself.
const restored = "restored\n"

// The watchdog is this executable, because no other one is known to be installed. This has to run
// before main and before tests.
func init() {
	if os.Getenv(watchdogVariable) == "" {
		return
	}
	// The watchdog must outlive the program, also if the terminal sends signals.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	restoreOnExit(os.Stdin, os.Stderr, os.Stdout)
	os.Exit(0)
}

// restoreOnExit restores the terminal when the program ends without having done so.
func restoreOnExit(program io.Reader, terminal *os.File, ready io.Writer) {
	before, err := term.GetState(descriptor(terminal))
	fmt.Fprintln(ready, "ready")
	if message, _ := io.ReadAll(program); string(message) == restored || err != nil {
		return
	}
	_, _ = terminal.WriteString(leaveAltScreen) // an error cannot be reported
	_ = term.Restore(descriptor(terminal), before)
}

// watchdog is the connection to the watchdog process.
type watchdog struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// startWatchdog returns when the watchdog has read the current state of the terminal.
func startWatchdog(terminal *os.File) (*watchdog, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this executable, to start the watchdog of the terminal: %w", err)
	}
	cmd := exec.Command(executable)
	cmd.Env = append(os.Environ(), watchdogVariable+"=1")
	cmd.Dir = "/" // so that the working directory can be unmounted
	cmd.Stderr = terminal
	// In its own session, signals to this process group do not reach the watchdog, and the kernel
	// lets it change the terminal although it is not in the foreground.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting to the watchdog of the terminal: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting to the watchdog of the terminal: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the watchdog of the terminal: %w", err)
	}
	w := &watchdog{cmd, stdin}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		w.stop()
		return nil, fmt.Errorf("starting the watchdog of the terminal: %w", err)
	}
	return w, nil
}

// stop ends the watchdog.
func (w *watchdog) stop() {
	_, _ = io.WriteString(w.stdin, restored) // fails if it was killed
	w.stdin.Close()
	_ = w.cmd.Wait()
}
