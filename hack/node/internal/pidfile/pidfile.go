// Package pidfile identifies the process of a running node in a file. Another process with the same
// PID is never taken for the node.
package pidfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Info identifies a running node.
type Info struct {
	// PID is that of the node's first process, as seen from the host. PID, Started (in clock ticks since
	// the boot) and BootID together are unique.
	PID     int    `json:"pid"`
	Started uint64 `json:"started"`
	BootID  string `json:"bootID"`
	// Network is the identity of the node's network namespace, such as net:[4026531840].
	Network string `json:"network"`
	// Assets is the folder with Kubernetes' programs.
	Assets string `json:"assets"`
}

// Of identifies a running process.
func Of(pid int, assets string) (Info, error) {
	started, _, err := stat(pid)
	if err != nil {
		return Info{}, err
	}
	boot, err := bootID()
	if err != nil {
		return Info{}, err
	}
	network, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return Info{}, err
	}
	return Info{PID: pid, Started: started, BootID: boot, Network: network, Assets: assets}, nil
}

// Read reads a file. Without a file it returns the zero Info, which identifies no process.
func Read(path string) (Info, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, nil
	}
	if err != nil {
		return Info{}, err
	}
	var r Info
	if err := json.Unmarshal(content, &r); err != nil {
		return Info{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return r, nil
}

// Write writes the file atomically.
func (r Info) Write(path string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	partial := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(partial, append(content, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// Alive reports whether the process runs. A zombie does not: the kernel has ended all processes of its
// PID namespace before.
func (r Info) Alive() bool {
	if r.PID == 0 {
		return false
	}
	boot, err := bootID()
	if err != nil || boot != r.BootID {
		return false
	}
	started, state, err := stat(r.PID)
	return err == nil && started == r.Started && state != 'Z' && state != 'X'
}

// NetworkPath is the file of the node's network namespace.
func (r Info) NetworkPath() string { return fmt.Sprintf("/proc/%d/ns/net", r.PID) }

// Root is the node's root folder, as seen from the host.
func (r Info) Root() string { return fmt.Sprintf("/proc/%d/root", r.PID) }

func bootID() (string, error) {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(content)), err
}

func stat(pid int) (started uint64, state byte, err error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	return parseStat(content)
}

// parseStat reads the start time and the state from a line such as "7 (a name) S 1 7 7 0 …".
func parseStat(line []byte) (started uint64, state byte, err error) {
	// The name is in parentheses and may contain spaces and parentheses itself.
	end := bytes.LastIndexByte(line, ')')
	fields := bytes.Fields(line[end+1:])
	const stateField, startedField = 0, 19 // 3 and 22 in proc(5), which also counts PID and name
	if end < 0 || len(fields) <= startedField {
		return 0, 0, fmt.Errorf("not a line of /proc/PID/stat: %q", line)
	}
	started, err = strconv.ParseUint(string(fields[startedField]), 10, 64)
	return started, fields[stateField][0], err
}
