//go:build unix

package process_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/internal/process"
)

// shell starts a shell script as a process.
func shell(t *testing.T, script string) *process.Process {
	t.Helper()
	p, err := process.Start(process.Spec{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

// waitFor waits until the process has written the line.
func waitFor(t *testing.T, p *process.Process, line string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); p.Tail(1) != line; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not write %q but %q", line, p.Tail(10))
		}
	}
}

func TestStop(t *testing.T) {
	const short, long = 50 * time.Millisecond, 20 * time.Second
	for name, test := range map[string]struct {
		script string
		grace  time.Duration
		pause  bool
		last   string
	}{
		"ends when asked":             {`trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.01; done`, long, false, "asked"},
		"ends when asked and paused":  {`trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.01; done`, long, true, "asked"},
		"does not listen: is killed":  {`trap '' TERM; echo up; while :; do sleep 0.01; done`, short, false, "up"},
		"has ended already":           {`echo up`, long, false, "up"},
		"killed with its own child":   {`trap '' TERM; sleep 1000 & echo up; wait`, short, false, "up"},
		"child left behind is killed": {`sleep 1000 & echo up`, long, false, "up"},
	} {
		t.Run(name, func(t *testing.T) {
			p := shell(t, test.script)
			waitFor(t, p, "up")
			if test.pause {
				if err := p.Pause(); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), test.grace)
			defer cancel()
			if err := p.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			if p.Running() {
				t.Error("it still runs")
			}
			if got := p.Tail(1); got != test.last {
				t.Errorf("the last line is %q, want %q", got, test.last)
			}
			for deadline := time.Now().Add(10 * time.Second); groupLives(t, p.PID()); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("its process group is still there")
				}
			}
		})
	}
}

// groupLives reports whether a process of a process group runs. Zombies, as in a container without an
// init process, do not.
func groupLives(t *testing.T, group int) bool {
	t.Helper()
	if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		return false
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return true // not a system that tells
	}
	for _, stat := range stats {
		content, _ := os.ReadFile(stat)
		_, fields, _ := strings.Cut(string(content), ") ")
		if f := strings.Fields(fields); len(f) > 2 && f[2] == strconv.Itoa(group) && f[0] != "Z" {
			return true
		}
	}
	return false
}

func TestStartReturnsError(t *testing.T) {
	_, err := process.Start(process.Spec{Name: "ghost", Path: "/no/such/program", Log: filepath.Join(t.TempDir(), "log")})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "ghost") {
		t.Errorf("got %v", err)
	}
}

func TestWaitReturnsExitError(t *testing.T) {
	if err := shell(t, "exit 0").Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if err := shell(t, "exit 3").Wait(t.Context()); err == nil || err.Error() != "exit status 3" {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := shell(t, "sleep 1000").Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var lines []string
	for i := range 20_000 {
		lines = append(lines, "line "+strconv.Itoa(i))
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("line 19998\nline 19999", process.Tail(path, 2)); diff != "" {
		t.Error(diff)
	}
	if got := process.Tail(path+".missing", 2); !strings.Contains(got, "no such file") {
		t.Errorf("got %q", got)
	}
}

// TestPortIsReservedOnce although no process listens on it.
func TestPortIsReservedOnce(t *testing.T) {
	port, err := process.ReservePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := process.Reserve("127.0.0.1", port.Number); !errors.Is(err, process.ErrPortTaken) {
		t.Errorf("got %v, want that it is taken", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port.Number))
	if err != nil {
		t.Fatalf("its owner cannot use it: %v", err)
	}
	listener.Close()
	port.Release()
	again, err := process.Reserve("127.0.0.1", port.Number)
	if err != nil {
		t.Fatal(err)
	}
	again.Release()
}

// TestUsedPortIsNotReserved does not reserve a port that a process listens on.
func TestUsedPortIsNotReserved(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = process.Reserve("127.0.0.1", listener.Addr().(*net.TCPAddr).Port)
	if !errors.Is(err, process.ErrPortTaken) {
		t.Errorf("got %v, want that it is taken", err)
	}
}
