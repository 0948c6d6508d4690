package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/fakenode"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
)

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFindPrograms(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "one"))
	if err := os.Mkdir(filepath.Join(folder, "two"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		programs []string
		missing  string
	}{
		"present":  {[]string{"one"}, ""},
		"a folder": {[]string{"one", "two"}, "program two not found"},
		"missing":  {[]string{"three"}, "program three not found"},
	} {
		found, err := cluster.FindPrograms(folder, test.programs...)
		if test.missing == "" && (err != nil || found != folder) || test.missing != "" && (err == nil || !strings.Contains(err.Error(), test.missing)) {
			t.Errorf("%s: got %q, %v", name, found, err)
		}
	}
}

// TestRemoveLogs removes only the logs of the named processes.
func TestRemoveLogs(t *testing.T) {
	c := &cluster.Cluster{Options: cluster.Options{Dir: t.TempDir()}}
	for _, name := range []string{"operator-0", "operator-1", "agent", "other"} {
		write(t, c.Log(name))
	}
	if err := c.RemoveLogs("operator-*", "agent", "absent"); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(c.Log("*"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{c.Log("other")}, left); diff != "" {
		t.Error(diff)
	}
}

func TestPodProcess(t *testing.T) {
	for name, test := range map[string]struct {
		status supervisor.ProcessStatus
		want   fakenode.Process
	}{
		"running": {supervisor.ProcessStatus{Phase: supervisor.Running, PID: 7, Restarts: 2, Since: time.Now()}, fakenode.Process{Running: true, Restarts: 2}},
		"waiting": {supervisor.ProcessStatus{Phase: supervisor.Waiting}, fakenode.Process{Reason: "ProcessIsWaiting"}},
	} {
		if diff := cmp.Diff(test.want, cluster.PodProcess(test.status)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
