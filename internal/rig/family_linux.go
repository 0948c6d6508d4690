package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listProcesses reads /proc, which is there where no ps is installed.
func listProcesses() (map[int]relative, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := map[int]relative{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		is, err := readAncestor(pid)
		if err != nil {
			continue // it has just ended
		}
		all[pid] = relative{parent: is.parent, name: commandName(pid)}
	}
	return all, nil
}

// commandName is the name under which a program was started, which for a link is the link's.
func commandName(pid int) string {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	first, _, _ := strings.Cut(string(content), "\x00")
	return filepath.Base(first)
}
