package rig

import (
	"errors"
	"maps"
	"syscall"
	"testing"
)

// processInfo is the parent and the name of a process.
type processInfo struct {
	parent int
	name   string
}

// Descendants returns the names of all descendants of a process by their IDs.
func Descendants(t testing.TB, pid int) map[int]string {
	t.Helper()
	all, err := listProcesses()
	if err != nil {
		t.Fatalf("listing processes: %v", err)
	}
	return below(pid, all)
}

func below(pid int, all map[int]processInfo) map[int]string {
	found := map[int]string{}
	for child, descends := range all {
		if descends.parent == pid {
			found[child] = descends.name
			maps.Copy(found, below(child, all))
		}
	}
	return found
}

// Alive returns the processes that still run. A process whose ID was reused does not.
func Alive(processes map[int]string) map[int]string {
	all, err := listProcesses()
	left := map[int]string{}
	for pid, name := range processes {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && all[pid].name != name {
			continue
		}
		left[pid] = name
	}
	return left
}
