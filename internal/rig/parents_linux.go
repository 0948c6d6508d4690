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

// runners are programs that run tests. When one of them is killed, the test run ends.
var runners = []string{"go", "make", "gmake", "gotestsum"}

// shells can be between make and its commands.
var shells = []string{"sh", "bash", "dash"}

// ancestor is an ancestor of this process. Its start time distinguishes it from a later process with
// the same ID.
type ancestor struct {
	pid, parent int
	name        string
	started     string
}

// exitWithParents ends this process and the runners between soon after the go or make that runs it was
// killed. Children are not notified: a killed `go test` leaves the test binary running, and a killed
// `make` leaves a `go test` that continues with the next package.
func exitWithParents() {
	ancestors := ancestorsOf(os.Getppid(), readAncestor)
	go func() {
		const interval = 100 * time.Millisecond
		for range time.Tick(interval) {
			for i, before := range ancestors {
				if before.alive() {
					continue
				}
				fmt.Fprintf(os.Stderr, "%s, which ran these tests, was killed: ending\n", before.name)
				// The processes between would continue with the next tests.
				for _, between := range ancestors[:i] {
					if between.alive() {
						_ = syscall.Kill(between.pid, syscall.SIGKILL)
					}
				}
				os.Exit(1)
			}
		}
	}()
}

// alive reports whether the same process still runs.
func (a ancestor) alive() bool {
	now, err := readAncestor(a.pid)
	return err == nil && now.started == a.started
}

// ancestorsOf returns the runners above this process, with the shells between them. A shell that no
// runner started belongs to a user or a script, whose end must not end the tests.
func ancestorsOf(pid int, read func(int) (ancestor, error)) []ancestor {
	var ancestors, between []ancestor
	for pid > 1 {
		current, err := read(pid)
		if err != nil {
			break
		}
		switch {
		case slices.Contains(runners, current.name):
			ancestors = append(append(ancestors, between...), current)
			between = nil
		case slices.Contains(shells, current.name):
			between = append(between, current)
		default:
			return ancestors
		}
		pid = current.parent
	}
	return ancestors
}

// readAncestor reads /proc/<pid>/stat: "pid (name) state parent …", with the start time as the
// 22nd field. A zombie counts as ended.
func readAncestor(pid int) (ancestor, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ancestor{}, err
	}
	open, end := bytes.IndexByte(content, '('), bytes.LastIndexByte(content, ')')
	if open < 0 || end < open {
		return ancestor{}, fmt.Errorf("/proc/%d/stat: unknown format", pid)
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
