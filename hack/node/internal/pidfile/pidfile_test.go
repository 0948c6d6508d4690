//go:build linux

package pidfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	const rest = " 1 7 7 0 -1 4194560 10 11 12 13 14 15 16 17 20 0 1 0 4711 1000 99"
	for name, test := range map[string]struct {
		line    string
		started uint64
		state   byte
		ok      bool
	}{
		"sleeping":              {"7 (node) S" + rest, 4711, 'S', true},
		"ended":                 {"7 (node) Z" + rest, 4711, 'Z', true},
		"a name like a process": {"7 (a) S 1 (b c) R" + rest, 4711, 'R', true},
		"cut short":             {"7 (node) S 1 7 7", 0, 0, false},
		"empty":                 {"", 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			started, state, err := parseStat([]byte(test.line))
			if (err == nil) != test.ok {
				t.Fatalf("error %v, want ok %t", err, test.ok)
			}
			if test.ok && (started != test.started || state != test.state) {
				t.Errorf("started %d, state %c; want %d, %c", started, state, test.started, test.state)
			}
		})
	}
}

func TestInfoIsReadAsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.json")
	missing, err := Read(path)
	if err != nil || missing.Alive() {
		t.Fatalf("without a file: %+v, %v; want no process", missing, err)
	}
	want, err := Of(os.Getpid(), "/assets")
	if err != nil {
		t.Fatal(err)
	}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil {
		t.Error("an incomplete file was read")
	}
}

func TestAliveIsOnlyTheSameProcess(t *testing.T) {
	own, err := Of(os.Getpid(), "")
	if err != nil {
		t.Fatal(err)
	}
	if !own.Alive() {
		t.Error("this process is not alive")
	}
	reused, rebooted := own, own
	reused.Started++
	rebooted.BootID = "another"
	if reused.Alive() {
		t.Error("a process with the same PID, started at another time, was taken for the node")
	}
	if rebooted.Alive() {
		t.Error("a process from before the last boot was taken for alive")
	}
}

func TestEndedProcessIsNotAlive(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended, err := Of(child.Process.Pid, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Error("a killed process ended without an error")
	}
	if ended.Alive() {
		t.Error("an ended process is alive")
	}
}
