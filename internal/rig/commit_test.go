package rig_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestCheckOut checks out the files of an earlier commit, and fails with the next step in a clone without its
// history.
func TestCheckOut(t *testing.T) {
	full, shallow := filepath.Join(t.TempDir(), "full"), filepath.Join(t.TempDir(), "shallow")
	git := func(folder string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", folder, "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(content string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(full, "folder", "file"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		git(full, "add", ".")
		git(full, "commit", "--quiet", "--message", content)
		return git(full, "rev-parse", "HEAD")
	}
	if err := os.MkdirAll(filepath.Join(full, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	git(full, "init", "--quiet")
	before := write("before")
	write("after")
	git(".", "clone", "--quiet", "--depth=1", "file://"+full, shallow)

	folder := t.TempDir()
	if err := rig.CheckOut(full, before, folder); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(folder, "folder", "file")); string(content) != "before" {
		t.Errorf("the file has %q: %v", content, err)
	}
	err := rig.CheckOut(shallow, before, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "git fetch --unshallow") || !strings.Contains(err.Error(), before) {
		t.Errorf("a clone without the commit: %v", err)
	}
}
