package rig_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestPrebuilt uses a program that was built before the tests if it is the right one.
func TestPrebuilt(t *testing.T) {
	const pkg = "./internal/rig/testdata/racy"
	folder := t.TempDir()
	there := filepath.Join(folder, "plain", "racy")
	build := exec.Command("go", "build", "-o", there, "./testdata/racy")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, test := range map[string]struct {
		folder, pkg string
		options     []rig.BuildOption
		want        string
	}{
		"there":                        {folder, pkg, nil, there},
		"no folder":                    {"", pkg, nil, ""},
		"not built":                    {folder, "./cmd/sharder", nil, ""},
		"not built with race detector": {folder, pkg, []rig.BuildOption{rig.Race}, ""},
		"another one of the same name": {folder, "./cmd/racy", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rig.Prebuilt(test.folder, test.pkg, test.options...); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
