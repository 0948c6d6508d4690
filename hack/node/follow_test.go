//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/pidfile"
)

// fakeNode starts a process that is taken for a node.
func fakeNode(t *testing.T) pidfile.Info {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	node, err := pidfile.Of(cmd.Process.Pid, "")
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func TestFollow(t *testing.T) {
	for name, test := range map[string]struct {
		then  func(*testing.T, *options, pidfile.Info)
		error string
	}{
		"until it is ready": {func(t *testing.T, o *options, _ pidfile.Info) { write(t, o.folder.Ready()) }, ""},
		"until it ends":     {func(t *testing.T, _ *options, node pidfile.Info) { mustKill(t, node) }, "precious"},
	} {
		t.Run(name, func(t *testing.T) {
			o, node := &options{folder: newFolder(t)}, fakeNode(t)
			write(t, o.folder.Log("node"))
			var shown strings.Builder
			followed := make(chan error, 1)
			go func() { followed <- o.follow(t.Context(), node, &shown) }()
			test.then(t, o, node)
			err := <-followed
			if (err != nil) != (test.error != "") || (err != nil && !strings.Contains(err.Error(), test.error)) {
				t.Errorf("follow: %v, want %q in it", err, test.error)
			}
			if shown.String() != "precious\n" {
				t.Errorf("shown: %q, want the log of the node", shown.String())
			}
		})
	}
}

func TestFollowIsInterrupted(t *testing.T) {
	o := &options{folder: newFolder(t)}
	write(t, o.folder.Log("node"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := o.follow(ctx, fakeNode(t), io.Discard); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("follow: %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestKillKillsTheNodeOnly(t *testing.T) {
	node := fakeNode(t)
	other := node
	other.Started++ // another process with the same PID
	mustKill(t, other)
	if !node.Alive() {
		t.Fatal("another process was killed")
	}
	mustKill(t, node)
	if node.Alive() {
		t.Error("the node is still alive")
	}
	mustKill(t, node) // without an error
}

func mustKill(t *testing.T, node pidfile.Info) {
	t.Helper()
	if err := kill(node); err != nil {
		t.Error(err)
	}
}
