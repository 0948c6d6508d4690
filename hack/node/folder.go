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

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
)

// marker is the content of the file that marks a node's folder. Without it, 'down' with a wrong --dir would
// remove other files.
const marker = `This folder belongs to a test node, and is removed with it: 'node down' (or 'make cluster-down').
The command hack/node of the Ringmaster project made it.
`

// claim makes the folder, or checks that it is the folder of a node.
func claim(folder config.Folder) error {
	if err := os.MkdirAll(string(folder), 0o700); err != nil {
		return err
	}
	if err := isClaimed(folder); err == nil {
		return nil
	}
	entries, err := os.ReadDir(string(folder))
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s has other files: choose another folder with --dir", folder)
	}
	return os.WriteFile(folder.Marker(), []byte(marker), 0o600)
}

// isClaimed returns nil for a folder that claim made.
func isClaimed(folder config.Folder) error {
	content, err := os.ReadFile(folder.Marker())
	if err != nil {
		return err
	}
	if string(content) != marker {
		return fmt.Errorf("%s is not the file of a node", folder.Marker())
	}
	return nil
}

// errGone is returned by lock for a folder that does not exist, or that the previous holder removed.
var errGone = errors.New("the node's folder does not exist")

// lock waits until no other command changes the node. The kernel releases the lock when this process ends.
func lock(ctx context.Context, folder config.Folder) (unlock func(), err error) {
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
			return nil, fmt.Errorf("waiting for the lock of %s: %w", folder, ctx.Err())
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

// take claims and locks the folder, also while a 'down' removes it.
func take(ctx context.Context, folder config.Folder) (unlock func(), err error) {
	for {
		if err := claim(folder); err != nil {
			return nil, err
		}
		if unlock, err := lock(ctx, folder); !errors.Is(err, errGone) {
			return unlock, err
		}
	}
}

// copyProgram copies this binary into the node's folder: the original may be rebuilt or removed while
// the node runs, or be in a folder that the node does not have.
func copyProgram(folder config.Folder) error {
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

// keepLogs copies the logs to another folder, where they remain after the node.
func keepLogs(folder config.Folder, target string) error {
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

// empty removes everything from a node's folder except for the marker.
func empty(folder config.Folder) error {
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
