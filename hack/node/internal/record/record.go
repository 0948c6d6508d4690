// Package record keeps which process is a node, so that it is found again and never mistaken for
// another process that was given the same number.
package record

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

// Record is what is known of a running node.
type Record struct {
	// PID is the number of the node's first process on this machine. Together with Started, in the
	// kernel's ticks since the boot that BootID names, it is never given again.
	PID     int    `json:"pid"`
	Started uint64 `json:"started"`
	BootID  string `json:"bootID"`
	// Network is the kernel's name for the node's network namespace.
	Network string `json:"network"`
	// Assets is the folder with Kubernetes' programs.
	Assets string `json:"assets"`
}

// Of describes a running process.
func Of(pid int, assets string) (Record, error) {
	started, _, err := stat(pid)
	if err != nil {
		return Record{}, err
	}
	boot, err := bootID()
	if err != nil {
		return Record{}, err
	}
	network, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return Record{}, err
	}
	return Record{PID: pid, Started: started, BootID: boot, Network: network, Assets: assets}, nil
}

// Read reads a record. Without a file it is the zero Record, which is nobody's.
func Read(path string) (Record, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(content, &r); err != nil {
		return Record{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return r, nil
}

// Write writes the record, whole or not at all.
func (r Record) Write(path string) error {
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

// Alive tells whether the process is still there. One that has ended and that nobody has waited
// for yet is not: the kernel has ended all processes of its namespace before.
func (r Record) Alive() bool {
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

// NetworkPath is a file that stands for the node's network namespace.
func (r Record) NetworkPath() string { return fmt.Sprintf("/proc/%d/ns/net", r.PID) }

// Root is the node's root folder, as seen from this machine.
func (r Record) Root() string { return fmt.Sprintf("/proc/%d/root", r.PID) }

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
	// The name is in parentheses and may hold spaces and parentheses itself.
	end := bytes.LastIndexByte(line, ')')
	fields := bytes.Fields(line[end+1:])
	const stateField, startedField = 0, 19 // 3 and 22 in proc(5), which counts the two before as well
	if end < 0 || len(fields) <= startedField {
		return 0, 0, fmt.Errorf("not a process's stat: %q", line)
	}
	started, err = strconv.ParseUint(string(fields[startedField]), 10, 64)
	return started, fields[stateField][0], err
}
