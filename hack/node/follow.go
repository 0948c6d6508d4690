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

	"github.com/ringmaster-project/ringmaster/hack/node/internal/record"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// poll is how often files and processes that cannot be waited for are looked at.
const poll = 50 * time.Millisecond

// killTimeout is for the kernel, to end all processes of a node.
const killTimeout = 30 * time.Second

// follow copies what the node says to out until it is ready. It fails when it ends instead.
func (o *options) follow(ctx context.Context, node record.Record, out io.Writer) error {
	said, err := newTail(o.folder.Log("node"), out)
	if err != nil {
		return err
	}
	defer said.Close()
	for {
		alive := node.Alive()
		_, ready := os.Stat(o.folder.Ready())
		if err := said.copy(); err != nil {
			return err
		}
		switch {
		case !alive:
			return fmt.Errorf("the node ended; it said:\n%s", process.Tail(o.folder.Log("node"), 20))
		case ready == nil:
			return nil
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
}

// tail is the part of a file that has not been shown yet.
type tail struct {
	*os.File
	out io.Writer
}

func newTail(path string, out io.Writer) (*tail, error) {
	// A log that somebody has removed must not keep a node from being stopped.
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	return &tail{file, out}, err
}

func (t *tail) copy() error {
	_, err := io.Copy(t.out, t.File)
	return err
}

// skip leaves out what is there already.
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

// send sends a signal to a node that is alive, and never to another process with its number: the
// process is taken hold of before it is looked at.
func send(node record.Record, sig os.Signal) error {
	held, err := os.FindProcess(node.PID)
	if err != nil {
		return err
	}
	defer func() { _ = held.Release() }()
	if !node.Alive() {
		return nil
	}
	if err := held.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to the node, process %d: %w", sig, node.PID, err)
	}
	return nil
}

// kill ends a node at once.
func kill(node record.Record) error {
	if err := send(node, os.Kill); err != nil {
		return err
	}
	for deadline := time.Now().Add(killTimeout); node.Alive(); time.Sleep(poll) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the node, process %d, was killed and did not end for %s", node.PID, killTimeout)
		}
	}
	return nil
}

// healthy asks the node as its users do.
func (o *options) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, question := range [][]string{
		{"get", "--raw", "/readyz"},
		{"wait", "node", "--all", "--for=condition=Ready", "--timeout=10s"},
	} {
		if said, err := exec.CommandContext(ctx, o.folder.Kubectl(), question...).CombinedOutput(); err != nil {
			return fmt.Errorf("it is not healthy (%w): %s", err, said)
		}
	}
	return nil
}
