package rig

import (
	"errors"
	"maps"
	"syscall"
	"testing"
)

// relative is a process with its parent.
type relative struct {
	parent int
	name   string
}

// Descendants returns the names of all processes below pid by their numbers.
func Descendants(t testing.TB, pid int) map[int]string {
	t.Helper()
	all, err := listProcesses()
	if err != nil {
		t.Fatalf("listing the machine's processes: %v", err)
	}
	return below(pid, all)
}

func below(pid int, all map[int]relative) map[int]string {
	found := map[int]string{}
	for child, is := range all {
		if is.parent == pid {
			found[child] = is.name
			maps.Copy(found, below(child, all))
		}
	}
	return found
}

// Alive returns those of the processes that are still there. One whose number now belongs to
// something else is not.
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
