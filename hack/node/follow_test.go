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

	"github.com/ringmaster-project/ringmaster/hack/node/internal/record"
)

// standIn starts a process that stands for a node.
func standIn(t *testing.T) record.Record {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	node, err := record.Of(cmd.Process.Pid, "")
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func TestFollow(t *testing.T) {
	for name, test := range map[string]struct {
		then  func(*testing.T, *options, record.Record)
		error string
	}{
		"until it is ready": {func(t *testing.T, o *options, _ record.Record) { write(t, o.folder.Ready()) }, ""},
		"until it ends":     {func(t *testing.T, _ *options, node record.Record) { mustKill(t, node) }, "precious"},
	} {
		t.Run(name, func(t *testing.T) {
			o, node := &options{folder: newFolder(t)}, standIn(t)
			write(t, o.folder.Log("node"))
			var shown strings.Builder
			followed := make(chan error, 1)
			go func() { followed <- o.follow(t.Context(), node, &shown) }()
			test.then(t, o, node)
			err := <-followed
			if (err != nil) != (test.error != "") || (err != nil && !strings.Contains(err.Error(), test.error)) {
				t.Errorf("follow: %v, want it to say %q", err, test.error)
			}
			if shown.String() != "precious\n" {
				t.Errorf("shown: %q, want what the node said", shown.String())
			}
		})
	}
}

func TestFollowIsInterrupted(t *testing.T) {
	o := &options{folder: newFolder(t)}
	write(t, o.folder.Log("node"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := o.follow(ctx, standIn(t), io.Discard); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("follow: %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestKillIsForTheNodeOnly(t *testing.T) {
	node := standIn(t)
	other := node
	other.Started++ // a process with the same number that is not the node
	mustKill(t, other)
	if !node.Alive() {
		t.Fatal("somebody else's process was killed")
	}
	mustKill(t, node)
	if node.Alive() {
		t.Error("the node is alive")
	}
	mustKill(t, node) // which is no error
}

func mustKill(t *testing.T, node record.Record) {
	t.Helper()
	if err := kill(node); err != nil {
		t.Error(err)
	}
}
