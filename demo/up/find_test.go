package up

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/demo/control"
)

// start pretends that an up runs on a folder: one that takes commands, or a bare one.
func start(t *testing.T, dir string, takes bool) *folder {
	t.Helper()
	f, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.close() })
	s := state{PID: os.Getpid(), Kubeconfig: "kubeconfig"}
	if takes {
		listener, err := control.Listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go control.Serve(t.Context(), listener, func(context.Context, control.Request, func(string)) (string, error) { return "", nil })
		s.Socket = listener.Addr().String()
	}
	if err := f.announce(s); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFind(t *testing.T) {
	const nothing = "nothing is up"
	for name, test := range map[string]struct {
		set  func(t *testing.T, tmp string)
		dir  string // in tmp
		want string // the folder, or else an error
	}{
		"nothing is there":       {func(*testing.T, string) {}, "", nothing},
		"there is no such thing": {func(*testing.T, string) {}, "elsewhere", "elsewhere does not exist"},
		"one is up":              {func(t *testing.T, tmp string) { start(t, filepath.Join(tmp, "ringmaster-1"), true) }, "", "ringmaster-1"},
		"it is named":            {func(t *testing.T, tmp string) { start(t, filepath.Join(tmp, "elsewhere"), true) }, "elsewhere", "elsewhere"},
		"it is not named":        {func(t *testing.T, tmp string) { start(t, filepath.Join(tmp, "elsewhere"), true) }, "", nothing},
		"several are up": {func(t *testing.T, tmp string) {
			start(t, filepath.Join(tmp, "ringmaster-1"), true)
			start(t, filepath.Join(tmp, "ringmaster-2"), true)
		}, "", "ringmaster-2"},
		"several are up, one is named": {func(t *testing.T, tmp string) {
			start(t, filepath.Join(tmp, "ringmaster-1"), true)
			start(t, filepath.Join(tmp, "ringmaster-2"), true)
		}, "ringmaster-1", "ringmaster-1"},
		"one is up, one is bare": {func(t *testing.T, tmp string) {
			start(t, filepath.Join(tmp, "ringmaster-1"), false)
			start(t, filepath.Join(tmp, "ringmaster-2"), true)
		}, "", "ringmaster-2"},
		"only a bare one is up": {func(t *testing.T, tmp string) { start(t, filepath.Join(tmp, "ringmaster-1"), false) }, "", "--example none"},
		"one is starting": {func(t *testing.T, tmp string) {
			f, err := openFolder(filepath.Join(tmp, "ringmaster-1"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.close() })
		}, "", "still starting"},
		"one was killed": {func(t *testing.T, tmp string) {
			f := start(t, filepath.Join(tmp, "ringmaster-1"), true)
			f.lock.Close() // as the kernel does
		}, "", nothing},
		"somebody has broken it": {func(t *testing.T, tmp string) {
			f := start(t, filepath.Join(tmp, "ringmaster-1"), true)
			if _, err := f.lock.WriteAt([]byte("broken"), 0); err != nil {
				t.Fatal(err)
			}
		}, "", "reading what is up"},
		"a folder of the tests": {func(t *testing.T, tmp string) {
			if err := os.Mkdir(filepath.Join(tmp, "ringmaster-rig-1"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "", nothing},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			test.set(t, tmp)
			dir := test.dir
			if dir != "" {
				dir = filepath.Join(tmp, dir)
			}
			found, err := Find(dir)
			got := filepath.Base(found.Dir)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if (err != nil) != (strings.Contains(test.want, " ") || name == "several are up") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestFindDoesNotDisturb looks again and again while somebody starts.
func TestFindDoesNotDisturb(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	done := make(chan struct{})
	looking := make(chan struct{})
	go func() {
		defer close(looking)
		often := time.NewTicker(time.Millisecond)
		defer often.Stop()
		for {
			select {
			case <-done:
				return
			case <-often.C:
				_, _ = Find(dir)
			}
		}
	}()
	for range 20 {
		f, err := openFolder(dir)
		if err != nil {
			t.Error(err)
			break
		}
		_ = f.close()
	}
	close(done)
	<-looking
}

func TestQuote(t *testing.T) {
	for path, want := range map[string]string{
		"/tmp/a-b_c.d": "/tmp/a-b_c.d",
		"/tmp/a b":     "'/tmp/a b'",
		"/tmp/it's":    `'/tmp/it'\''s'`,
		"/tmp/$HOME":   "'/tmp/$HOME'",
	} {
		if got := quote(path); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
