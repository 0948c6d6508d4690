//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
)

// Init is the first process of a node: it prepares the namespaces, runs the supervisor, which is
// this program with args, and returns its exit code. It must be started by Start.
func Init(folder config.Folder, assets string, args ...string) (int, error) {
	if os.Getpid() != 1 {
		return 0, errors.New("this command is for the first process of a node: use 'up'")
	}
	// First of all, because the kernel drops signals for which the first process of a PID namespace has
	// no handler.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return 0, fmt.Errorf("waiting for Release: %w", err)
	}
	if err := prepare(folder, assets); err != nil {
		return 0, err
	}

	supervisor := exec.Command(folder.Program(), args...)
	supervisor.Stdout, supervisor.Stderr = os.Stdout, os.Stderr
	if err := supervisor.Start(); err != nil {
		return 0, fmt.Errorf("starting the supervisor: %w", err)
	}
	go func() {
		for received := range signals {
			_ = supervisor.Process.Signal(received) // if it has ended, so does this process
		}
	}()
	return reapUntil(supervisor.Process.Pid)
}

func prepare(folder config.Folder, assets string) error {
	if err := mountAll(folder, assets); err != nil {
		return fmt.Errorf("preparing the node's file system: %w", err)
	}
	if err := syscall.Sethostname([]byte(config.NodeName)); err != nil {
		return fmt.Errorf("setting the node's host name: %w", err)
	}
	if err := connect(); err != nil {
		return fmt.Errorf("preparing the node's network: %w", err)
	}
	return nil
}

// reapUntil reaps processes until the one with the PID has ended.
func reapUntil(last int) (int, error) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("waiting for the supervisor: %w", err)
		case pid == last && status.Signaled():
			return 0, fmt.Errorf("the supervisor was ended by the signal %q", status.Signal())
		case pid == last:
			return status.ExitStatus(), nil
		}
	}
}
