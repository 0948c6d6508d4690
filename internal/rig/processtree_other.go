//go:build unix && !linux

package rig

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// listProcesses runs ps.
func listProcesses() (map[int]processInfo, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,comm=").Output()
	if err != nil {
		return nil, err
	}
	all := map[int]processInfo{}
	for line := range strings.Lines(string(out)) {
		var pid, parent int
		var command string
		if _, err := fmt.Sscan(line, &pid, &parent, &command); err == nil {
			all[pid] = processInfo{parent: parent, name: filepath.Base(command)}
		}
	}
	return all, nil
}
