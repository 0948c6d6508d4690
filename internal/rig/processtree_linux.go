package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listProcesses reads /proc, because ps may not be installed.
func listProcesses() (map[int]processInfo, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := map[int]processInfo{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		descends, err := readAncestor(pid)
		if err != nil {
			continue // it has just ended
		}
		all[pid] = processInfo{parent: descends.parent, name: commandName(pid)}
	}
	return all, nil
}

// commandName returns the name under which a program was started, which can be that of a link.
func commandName(pid int) string {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	first, _, _ := strings.Cut(string(content), "\x00")
	return filepath.Base(first)
}
