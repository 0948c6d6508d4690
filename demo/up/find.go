package up

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// RunningDemo is a running demo.
type RunningDemo struct {
	// Dir is the data folder, Socket the path of the control socket.
	Dir, Socket string
}

// errNotRunning is returned if no demo runs.
var errNotRunning = errors.New("no demo is running: start it with 'ringmaster up' (or 'make up') in another terminal, " +
	"and pass its --data-dir if it has one")

// Find returns the demo that runs with a data folder, or, if dir is empty, the only one that runs
// with a temporary folder.
func Find(dir string) (RunningDemo, error) {
	if dir != "" {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return RunningDemo{}, err
		}
		if _, err := os.Stat(absolute); errors.Is(err, fs.ErrNotExist) {
			return RunningDemo{}, fmt.Errorf("folder %s not found: pass the --data-dir of the running demo", absolute)
		}
		return findIn(absolute)
	}
	folders, err := filepath.Glob(filepath.Join(os.TempDir(), "ringmaster-*"))
	if err != nil {
		return RunningDemo{}, err
	}
	return findAmong(folders)
}

// findAmong returns the only demo that accepts commands. If there is none, the error is about the
// demo that comes closest.
func findAmong(folders []string) (RunningDemo, error) {
	var all []RunningDemo
	nearest := errNotRunning
	for _, folder := range folders {
		found, err := findIn(folder)
		switch {
		case err == nil:
			all = append(all, found)
		case !errors.Is(err, errNotRunning):
			nearest = err
		}
	}
	switch len(all) {
	case 0:
		return RunningDemo{}, nearest
	case 1:
		return all[0], nil
	}
	var names []string
	for _, found := range all {
		names = append(names, "--data-dir "+quote(found.Dir))
	}
	return RunningDemo{}, fmt.Errorf("several demos are running: choose one with\n  %s", strings.Join(names, "\n  "))
}

// findIn returns the demo that runs with a folder.
func findIn(dir string) (RunningDemo, error) {
	info, err := os.Stat(filepath.Join(dir, stateFile))
	if err != nil {
		return RunningDemo{}, errNotRunning
	}
	// Do not connect to the socket of another user.
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int64(stat.Uid) != int64(os.Getuid()) {
		return RunningDemo{}, errNotRunning
	}
	content, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return RunningDemo{}, fmt.Errorf("reading the state of the demo: %w", err)
	}
	s := state{}
	if len(content) > 0 {
		if err := json.Unmarshal(content, &s); err != nil {
			return RunningDemo{}, fmt.Errorf("reading the state of the demo in %s: %w", filepath.Join(dir, stateFile), err)
		}
	}
	return s.found(dir)
}

// found returns the demo if it accepts commands.
func (s state) found(dir string) (RunningDemo, error) {
	switch {
	case !locked(dir):
		return RunningDemo{}, errNotRunning // the demo was killed or has ended
	case s.PID == 0:
		return RunningDemo{}, fmt.Errorf("the demo in %s is still starting: try again when it is ready", dir)
	case s.Socket == "":
		return RunningDemo{}, fmt.Errorf("the demo in %s has no example: start it without '--example none'", dir)
	}
	conn, err := net.Dial("unix", s.Socket)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return RunningDemo{}, errNotRunning // the demo is stopping
	}
	if err != nil {
		return RunningDemo{}, fmt.Errorf("connecting to the demo in %s: %w", dir, err)
	}
	conn.Close()
	return RunningDemo{Dir: dir, Socket: s.Socket}, nil
}

// locked returns true if a demo runs with the folder.
func locked(dir string) bool {
	file, err := os.Open(filepath.Join(dir, stateFile))
	if err != nil {
		return false
	}
	defer file.Close() // releases the lock
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK)
}
