package up

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/process"
)

// stateFile marks a folder as a data folder. It is locked while a demo runs, and has the state of
// that demo.
const stateFile = "ringmaster.json"

// state describes a running demo for other programs.
type state struct {
	PID        int    `json:"pid"`
	Kubeconfig string `json:"kubeconfig"`
	// Socket is the path of the control socket, if there is one.
	Socket string `json:"socket,omitempty"`
}

// folder is the data folder, locked by this process.
type folder struct {
	path      string
	temporary bool
	lock      *os.File
}

// openFolder creates and locks the folder. If the path is empty, it creates a temporary folder,
// which is deleted at the end.
func openFolder(path string) (*folder, error) {
	f := &folder{path: path, temporary: path == ""}
	if err := f.create(); err != nil {
		return nil, err
	}
	if err := f.acquireLock(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *folder) create() (err error) {
	if f.temporary {
		if f.path, err = os.MkdirTemp("", "ringmaster-"); err != nil {
			return fmt.Errorf("creating a folder for the data: %w", err)
		}
		return process.RemoveOnExit(f.path)
	}
	if f.path, err = filepath.Abs(f.path); err != nil {
		return err
	}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return fmt.Errorf("creating the data folder: %w", err)
	}
	return requireOwnFolder(f.path)
}

// requireOwnFolder returns an error if the folder contains other files: a data folder is empty or
// from an earlier run.
func requireOwnFolder(path string) error {
	if _, err := os.Stat(filepath.Join(path, stateFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("reading the data folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("folder %s contains other files (%s, …): choose an empty folder, or one that does not exist yet",
			path, entries[0].Name())
	}
	return nil
}

// acquireLock locks the folder. The kernel releases the lock when this process ends.
func (f *folder) acquireLock() error {
	lock, err := os.OpenFile(filepath.Join(f.path, stateFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening the data folder: %w", err)
	}
	if err := lockExclusively(lock); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return f.runningError()
		}
		return fmt.Errorf("locking the data folder: %w", err)
	}
	f.lock = lock
	// Remove the state of the last run.
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("opening the data folder: %w", err)
	}
	return nil
}

// lockExclusively locks a file. It retries for a moment, because Find locks the file briefly.
func lockExclusively(file *os.File) (err error) {
	const attempts, interval = 25, 20 * time.Millisecond
	for range attempts {
		if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		time.Sleep(interval)
	}
	return err
}

func (f *folder) runningError() error {
	var other state
	content, err := os.ReadFile(filepath.Join(f.path, stateFile))
	if err != nil || json.Unmarshal(content, &other) != nil {
		return fmt.Errorf("another 'ringmaster up' is starting with the folder %s: choose another --data-dir", f.path)
	}
	return fmt.Errorf("'ringmaster up' already runs with the folder %s as process %d; its kubeconfig is %s: "+
		"use that demo, stop it with Ctrl-C or 'kill %[2]d', or choose another --data-dir", f.path, other.PID, other.Kubeconfig)
}

// writeState writes the state for other programs.
func (f *folder) writeState(s state) error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	// Write in place, because the lock is on this file.
	if err := f.lock.Truncate(0); err != nil {
		return fmt.Errorf("writing %s: %w", stateFile, err)
	}
	if _, err := f.lock.WriteAt(content, 0); err != nil {
		return fmt.Errorf("writing %s: %w", stateFile, err)
	}
	return nil
}

// close unlocks the folder, and removes a temporary one.
func (f *folder) close() error {
	defer f.lock.Close()
	if !f.temporary {
		return nil
	}
	if err := os.RemoveAll(f.path); err != nil {
		return fmt.Errorf("removing the data: %w", err)
	}
	return nil
}

// keep prevents that a temporary folder is removed, so that its logs can be read.
func (f *folder) keep() error {
	if !f.temporary {
		return nil
	}
	f.temporary = false
	return process.KeepOnExit(f.path)
}
