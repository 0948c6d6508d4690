//go:build linux

package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/pidfile"
)

func TestProcessBelongsToFolder(t *testing.T) {
	folder := config.Folder("/var/lib/node")
	ended := pidfile.Info{Network: "net:[1]"}
	for name, test := range map[string]struct {
		process process
		ended   pidfile.Info
		want    string
	}{
		"in the node's network":          {process{network: "net:[1]"}, ended, "network"},
		"in a pod":                       {process{cgroups: "4:memory:/" + folder.Cgroup() + "/kubepods/pod1\n"}, ended, "cgroup"},
		"in the node's cgroup":           {process{cgroups: "0::/" + folder.Cgroup()}, ended, "cgroup"},
		"the node's program":             {process{program: "/var/lib/node/node"}, ended, "program"},
		"its program, removed":           {process{program: "/var/lib/node/node (deleted)"}, ended, "program"},
		"another node's pod":             {process{cgroups: "0::/" + folder.Cgroup() + "0/kubepods"}, ended, ""},
		"another folder's program":       {process{program: "/var/lib/node2/node"}, ended, ""},
		"another process":                {process{network: "net:[2]", program: "/bin/sh", cgroups: "0::/"}, ended, ""},
		"unreadable, without a PID file": {process{}, pidfile.Info{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.process.belongs(folder, test.ended)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("belongs: %q, want %q in it", got, test.want)
			}
		})
	}
}

func TestNothingIsLeftWithoutNode(t *testing.T) {
	folder := config.Folder(filepath.Join(t.TempDir(), "node"))
	left, err := Leftovers(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("left of a node that never ran: %q, %v", left, err)
	}
	if left := Processes(folder, pidfile.Info{}); len(left) > 0 {
		t.Errorf("processes of a node that never ran: %q", left)
	}
}

func TestThisProcessIsFound(t *testing.T) {
	for _, p := range processes("/proc") {
		if p.pid == filepath.Base(mustReadlink(t, "/proc/self")) {
			if p.program == "" || p.network == "" || p.name == "" {
				t.Errorf("read only %+v of this process", p)
			}
			return
		}
	}
	t.Error("this process is not among all processes")
}

func mustReadlink(t *testing.T, path string) string {
	t.Helper()
	target, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	return target
}
