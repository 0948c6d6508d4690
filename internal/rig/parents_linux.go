package rig

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// runners are the programs that run tests for a person: when one of them is killed, so is the run.
var runners = []string{"go", "make", "gmake", "gotestsum"}

// shells stand between make and what it runs.
var shells = []string{"sh", "bash", "dash"}

// ancestor is a process above this one. The time of its start tells it from a later process with
// the same number.
type ancestor struct {
	pid, parent int
	name        string
	started     string
}

// endWithParents ends this process, and the runners between, soon after the go or make that runs it
// was killed. Nobody tells a child of that: `go test` that gets SIGKILL leaves the test binary
// running with everything that it started, and `make` leaves a `go test` that goes on with the next
// package.
func endWithParents() {
	lineage := lineageOf(os.Getppid(), readAncestor)
	go func() {
		const interval = 100 * time.Millisecond
		for range time.Tick(interval) {
			for i, before := range lineage {
				if before.alive() {
					continue
				}
				fmt.Fprintf(os.Stderr, "%s, which ran these tests, was killed: ending\n", before.name)
				// Those between it and this process would go on with the next tests.
				for _, between := range lineage[:i] {
					if between.alive() {
						_ = syscall.Kill(between.pid, syscall.SIGKILL)
					}
				}
				os.Exit(1)
			}
		}
	}()
}

// alive tells whether the very process still runs.
func (a ancestor) alive() bool {
	now, err := readAncestor(a.pid)
	return err == nil && now.started == a.started
}

// lineageOf returns the runners above this process, with the shells between them. A shell that no
// runner started is a person's or a script's, and may end without wanting to end the tests.
func lineageOf(pid int, read func(int) (ancestor, error)) []ancestor {
	var lineage, between []ancestor
	for pid > 1 {
		current, err := read(pid)
		if err != nil {
			break
		}
		switch {
		case slices.Contains(runners, current.name):
			lineage = append(append(lineage, between...), current)
			between = nil
		case slices.Contains(shells, current.name):
			between = append(between, current)
		default:
			return lineage
		}
		pid = current.parent
	}
	return lineage
}

// readAncestor reads /proc/<pid>/stat: "pid (name) state parent …", with the start time as the
// 22nd field. A zombie has been killed, although its number is still there.
func readAncestor(pid int) (ancestor, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ancestor{}, err
	}
	open, end := bytes.IndexByte(content, '('), bytes.LastIndexByte(content, ')')
	if open < 0 || end < open {
		return ancestor{}, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	const state, parentField, startField = 0, 1, 19
	fields := bytes.Fields(content[end+1:])
	if len(fields) <= startField || string(fields[state]) == "Z" || string(fields[state]) == "X" {
		return ancestor{}, fmt.Errorf("process %d has ended", pid)
	}
	parent, err := strconv.Atoi(string(fields[parentField]))
	return ancestor{
		pid: pid, parent: parent, name: string(content[open+1 : end]), started: string(fields[startField]),
	}, err
}
