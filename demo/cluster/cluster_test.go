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
		"it is there":    {[]string{"one"}, ""},
		"it is a folder": {[]string{"one", "two"}, "the program two is missing"},
		"it is missing":  {[]string{"three"}, "the program three is missing"},
	} {
		found, err := cluster.FindPrograms(folder, test.programs...)
		if test.missing == "" && (err != nil || found != folder) || test.missing != "" && (err == nil || !strings.Contains(err.Error(), test.missing)) {
			t.Errorf("%s: got %q, %v", name, found, err)
		}
	}
}

// TestForgetLogs removes those of the processes that are named, and no others.
func TestForgetLogs(t *testing.T) {
	s := &cluster.Stage{Options: cluster.Options{Dir: t.TempDir()}}
	for _, name := range []string{"operator-0", "operator-1", "agent", "other"} {
		write(t, s.Log(name))
	}
	if err := s.ForgetLogs("operator-*", "agent", "absent"); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(s.Log("*"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{s.Log("other")}, left); diff != "" {
		t.Error(diff)
	}
}

func TestProcess(t *testing.T) {
	for name, test := range map[string]struct {
		member supervisor.Member
		want   fakenode.Process
	}{
		"it runs":     {supervisor.Member{Phase: supervisor.Running, PID: 7, Restarts: 2, Since: time.Now()}, fakenode.Process{Running: true, Restarts: 2}},
		"it is ended": {supervisor.Member{Phase: supervisor.Waiting}, fakenode.Process{Reason: "ProcessIsWaiting"}},
	} {
		if diff := cmp.Diff(test.want, cluster.Process(test.member)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
