//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/layout"
)

// marker says to whom the folder belongs. Without it, a slip of the finger in --dir would make
// 'down' remove somebody's files.
const marker = `This folder belongs to a test node, and is removed with it: 'node down' (or 'make cluster-down').
It was made by the command hack/node of the Ringmaster project.
`

// claim makes the folder, or checks that it is a node's.
func claim(folder layout.Folder) error {
	if err := os.MkdirAll(string(folder), 0o700); err != nil {
		return err
	}
	if err := ours(folder); err == nil {
		return nil
	}
	entries, err := os.ReadDir(string(folder))
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s has files in it that are not a node's: choose another folder with --dir", folder)
	}
	return os.WriteFile(folder.Marker(), []byte(marker), 0o600)
}

// ours returns nil for a folder that claim made.
func ours(folder layout.Folder) error {
	content, err := os.ReadFile(folder.Marker())
	if err != nil {
		return err
	}
	if string(content) != marker {
		return fmt.Errorf("%s is not a node's", folder.Marker())
	}
	return nil
}

// errGone is returned by lock for a folder that does not exist, or was removed by who had the lock.
var errGone = errors.New("the node's folder is gone")

// lock waits until no other command changes the node. The lock goes with this process.
func lock(ctx context.Context, folder layout.Folder) (unlock func(), err error) {
	file, err := os.Open(string(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("waiting for another command on %s: %w", folder, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
	locked, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	current, err := os.Stat(string(folder))
	if err != nil || !os.SameFile(locked, current) {
		file.Close()
		return nil, errGone
	}
	return func() { file.Close() }, nil
}

// take claims and locks the folder, also when a 'down' is just removing it.
func take(ctx context.Context, folder layout.Folder) (unlock func(), err error) {
	for {
		if err := claim(folder); err != nil {
			return nil, err
		}
		if unlock, err := lock(ctx, folder); !errors.Is(err, errGone) {
			return unlock, err
		}
	}
}

// copyProgram puts this very program into the node's folder: the one that was started may be
// rebuilt or removed while the node runs, or be where the node does not see it.
func copyProgram(folder layout.Folder) error {
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(folder.Program(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		target.Close()
		return err
	}
	return target.Close()
}

// keepLogs copies the logs to another folder, where they outlive the node.
func keepLogs(folder layout.Folder, target string) error {
	if _, err := os.Stat(folder.Logs()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	return os.CopyFS(target, os.DirFS(folder.Logs()))
}

// empty removes everything from a node's folder but the marker.
func empty(folder layout.Folder) error {
	entries, err := os.ReadDir(string(folder))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(string(folder), entry.Name())
		if path == folder.Marker() {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}
