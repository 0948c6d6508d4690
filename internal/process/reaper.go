//go:build unix

package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// reaperVariable, when set, makes this executable a reaper and nothing else.
const reaperVariable = "RINGMASTER_REAPER"

// The kinds of records that a reaper keeps.
const (
	processRecord = "process"
	folderRecord  = "folder"
)

// The reaper is a second process of the same executable, so that no other has to be found, installed
// and kept in step. An init function decides so before main or the tests run.
func init() {
	if os.Getenv(reaperVariable) == "" {
		return
	}
	// The reaper ends when its standard input is closed.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	reap(os.Stdin)
	os.Exit(0)
}

// reaper is the connection to the reaper of this process.
type reaper struct {
	mu    sync.Mutex
	stdin io.Writer
}

func startReaper() (*reaper, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this executable, to start its reaper: %w", err)
	}
	cmd := exec.Command(executable)
	cmd.Env = append(os.Environ(), reaperVariable+"=1")
	cmd.Dir = "/" // not the working directory, which may be removed
	// A session of its own, so that it survives a signal to this process's group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting to the reaper: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the reaper: %w", err)
	}
	go func() { _ = cmd.Wait() }() // so that a killed reaper does not stay a zombie
	return &reaper{stdin: stdin}, nil
}

func (r *reaper) add(kind, value string)    { r.write("+", kind, value) }
func (r *reaper) remove(kind, value string) { r.write("-", kind, value) }

// write ignores errors: without a reaper, this process still stops its children when it ends
// gracefully.
func (r *reaper) write(sign, kind, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.stdin, "%s %s %s\n", sign, kind, value)
}

// RemoveOnExit removes the folder after this process and all processes that it started have ended,
// however they end.
func RemoveOnExit(folder string) error {
	watch, err := watcher()
	if err != nil {
		return err
	}
	absolute, err := filepath.Abs(folder) // the reaper has another working directory
	if err != nil {
		return err
	}
	watch.add(folderRecord, absolute)
	return nil
}

// KeepOnExit reverts RemoveOnExit.
func KeepOnExit(folder string) error {
	watch, err := watcher()
	if err != nil {
		return err
	}
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	watch.remove(folderRecord, absolute)
	return nil
}

// reap reads records until the writer has ended, and then kills the remaining processes and removes the
// remaining folders.
func reap(records io.Reader) {
	left := map[string]map[string]bool{processRecord: {}, folderRecord: {}}
	lines := bufio.NewScanner(records)
	for lines.Scan() {
		sign, record, _ := strings.Cut(lines.Text(), " ")
		kind, value, _ := strings.Cut(record, " ")
		switch {
		case left[kind] == nil:
		case sign == "+":
			left[kind][value] = true
		case sign == "-":
			delete(left[kind], value)
		}
	}
	var groups []int
	for value := range left[processRecord] {
		if pid, err := strconv.Atoi(value); err == nil && pid > 1 {
			groups = append(groups, pid)
		}
	}
	killGroups(groups)
	for folder := range left[folderRecord] {
		_ = os.RemoveAll(folder)
	}
}

// killGroups kills process groups and waits for their end, because a process that still writes would
// create a removed folder again. It does not wait long, because zombies stay in containers without an
// init process.
func killGroups(groups []int) {
	const pause, tries = 10 * time.Millisecond, 200
	for range tries {
		groups = slices.DeleteFunc(groups, func(group int) bool { return syscall.Kill(-group, syscall.SIGKILL) != nil })
		if len(groups) == 0 {
			return
		}
		time.Sleep(pause)
	}
}
