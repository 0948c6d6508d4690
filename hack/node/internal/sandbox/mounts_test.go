//go:build linux

package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIsPrivate(t *testing.T) {
	for path, want := range map[string]bool{
		"/var/lib/ringmaster-node":             true,
		"/var/lib/builds/clone/bin/kubernetes": true,
		"/var/libexec/node":                    false,
		"/home/user/ringmaster/bin/kubernetes": false,
	} {
		if got := isPrivate(path); got != want {
			t.Errorf("covered(%s) = %t, want %t", path, got, want)
		}
	}
}

func TestTargetsOfLinks(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	for link, target := range map[string]string{
		"etcd": filepath.Join(other, "etcd"), "kubectl": filepath.Join(other, "kubectl"), "kubelet": "kubernetes", "gone": "missing",
	} {
		if err := os.Symlink(target, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{filepath.Join(other, "etcd"), filepath.Join(other, "kubectl"), filepath.Join(folder, "kubernetes")} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{other}, targets(folder)); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
}
