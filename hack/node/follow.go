//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/pidfile"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// poll is the interval of checks of files and processes.
const poll = 50 * time.Millisecond

// killTimeout is the timeout for the kernel to end all processes of a node.
const killTimeout = 30 * time.Second

// follow copies the log of the node to out until the node is ready. It fails if the node ends.
func (o *options) follow(ctx context.Context, node pidfile.Info, out io.Writer) error {
	output, err := newTail(o.folder.Log("node"), out)
	if err != nil {
		return err
	}
	defer output.Close()
	for {
		alive := node.Alive()
		_, ready := os.Stat(o.folder.Ready())
		if err := output.copy(); err != nil {
			return err
		}
		switch {
		case !alive:
			return fmt.Errorf("the node ended; its log:\n%s", process.Tail(o.folder.Log("node"), 20))
		case ready == nil:
			return nil
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
}

// tail is the part of a file that was not copied yet.
type tail struct {
	*os.File
	out io.Writer
}

func newTail(path string, out io.Writer) (*tail, error) {
	// A missing log must not prevent the stop of a node.
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	return &tail{file, out}, err
}

func (t *tail) copy() error {
	_, err := io.Copy(t.out, t.File)
	return err
}

// skip skips the present content.
func (t *tail) skip() error {
	_, err := t.Seek(0, io.SeekEnd)
	return err
}

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(poll):
		return nil
	}
}

// send sends a signal to a node that is alive, and never to another process with its PID: it opens the
// process before it compares.
func send(node pidfile.Info, sig os.Signal) error {
	opened, err := os.FindProcess(node.PID)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Release() }()
	if !node.Alive() {
		return nil
	}
	if err := opened.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to the node, process %d: %w", sig, node.PID, err)
	}
	return nil
}

// kill kills a node, and waits for its end.
func kill(node pidfile.Info) error {
	if err := send(node, os.Kill); err != nil {
		return err
	}
	for deadline := time.Now().Add(killTimeout); node.Alive(); time.Sleep(poll) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the node, process %d, did not end within %s after SIGKILL", node.PID, killTimeout)
		}
	}
	return nil
}

// healthy checks the node with kubectl.
func (o *options) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, args := range [][]string{
		{"get", "--raw", "/readyz"},
		{"wait", "node", "--all", "--for=condition=Ready", "--timeout=10s"},
	} {
		if output, err := exec.CommandContext(ctx, o.folder.Kubectl(), args...).CombinedOutput(); err != nil {
			return fmt.Errorf("it is not healthy (%w): %s", err, output)
		}
	}
	return nil
}
