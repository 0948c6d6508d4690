//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
)

func newFolder(t *testing.T) config.Folder {
	t.Helper()
	return config.Folder(filepath.Join(t.TempDir(), "node"))
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestClaimTakesOnlyFreeFolders(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*testing.T, config.Folder)
		ok      bool
	}{
		"missing": {func(*testing.T, config.Folder) {}, true},
		"empty": {func(t *testing.T, f config.Folder) {
			if err := os.Mkdir(string(f), 0o700); err != nil {
				t.Fatal(err)
			}
		}, true},
		"claimed before": {func(t *testing.T, f config.Folder) {
			if err := claim(f); err != nil {
				t.Fatal(err)
			}
			write(t, f.PIDFile())
		}, true},
		"other files":               {func(t *testing.T, f config.Folder) { write(t, f.PIDFile()) }, false},
		"other files with a README": {func(t *testing.T, f config.Folder) { write(t, f.Marker()) }, false},
		"other files in a folder":   {func(t *testing.T, f config.Folder) { write(t, f.Log("node")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			folder := newFolder(t)
			test.prepare(t, folder)
			if err := claim(folder); (err == nil) != test.ok {
				t.Fatalf("claim: %v, want ok %t", err, test.ok)
			}
			// Only what was claimed may be removed.
			down := &downOptions{options: &options{folder: folder}}
			if err := down.removeFolder(); (err == nil) != test.ok {
				t.Errorf("remove: %v, want ok %t", err, test.ok)
			}
			if _, err := os.Stat(string(folder)); (err != nil) != test.ok {
				t.Errorf("afterwards the folder: %v", err)
			}
		})
	}
}

func TestEmptyKeepsMarker(t *testing.T) {
	folder := newFolder(t)
	if err := claim(folder); err != nil {
		t.Fatal(err)
	}
	write(t, folder.Log("node"))
	write(t, folder.PIDFile())
	if err := empty(folder); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(string(folder))
	if err != nil || len(entries) != 1 || isClaimed(folder) != nil {
		t.Errorf("left: %v, %v; want the marker only", entries, err)
	}
}

func TestLockIsExclusive(t *testing.T) {
	folder := newFolder(t)
	if _, err := lock(t.Context(), folder); !errors.Is(err, errGone) {
		t.Errorf("locking a missing folder: %v, want %v", err, errGone)
	}
	if err := claim(folder); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := lock(short, folder); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("locking twice: %v, want %v", err, context.DeadlineExceeded)
	}
	unlock()
	next, err := lock(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	next()
}

// A command that waits while 'down' removes the folder must not take the lock of the removed folder.
func TestLockOfRemovedFolderFails(t *testing.T) {
	folder := newFolder(t)
	if err := claim(folder); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := lock(t.Context(), folder)
		waited <- err
	}()
	time.Sleep(50 * time.Millisecond) // so that it has opened the old folder; otherwise the test passes anyway
	if err := os.RemoveAll(string(folder)); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-waited; !errors.Is(err, errGone) {
		t.Errorf("locking a removed folder: %v, want %v", err, errGone)
	}
}

func TestLogsAreKept(t *testing.T) {
	folder, target := newFolder(t), filepath.Join(t.TempDir(), "kept", "logs")
	if err := keepLogs(folder, target); err != nil {
		t.Errorf("keeping the logs of a node without logs: %v", err)
	}
	write(t, folder.Log("kubelet"))
	write(t, filepath.Join(folder.Logs(), "pods", "one", "0.log"))
	for range 2 { // the second time it replaces the first copy
		if err := keepLogs(folder, target); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"kubelet.log", "pods/one/0.log"} {
		if _, err := os.Stat(filepath.Join(target, file)); err != nil {
			t.Error(err)
		}
	}
}
