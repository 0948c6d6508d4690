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

// startFake locks a folder as a running demo does, with or without a control socket.
func startFake(t *testing.T, dir string, acceptsCommands bool) *folder {
	t.Helper()
	f, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.close() })
	s := state{PID: os.Getpid(), Kubeconfig: "kubeconfig"}
	if acceptsCommands {
		listener, err := control.Listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go control.Serve(t.Context(), listener, noDemo{})
		s.Socket = listener.Addr().String()
	}
	if err := f.writeState(s); err != nil {
		t.Fatal(err)
	}
	return f
}

// noDemo is a demo without processes.
type noDemo struct{}

func (noDemo) List() []control.Process { return nil }

func (noDemo) Do(context.Context, control.Request, func(string)) (string, error) { return "", nil }

func TestFind(t *testing.T) {
	const none = "no demo is running"
	for name, test := range map[string]struct {
		set  func(t *testing.T, tmp string)
		dir  string // in tmp
		want string // the folder, or a part of the error
	}{
		"no demo":               {func(*testing.T, string) {}, "", none},
		"no such folder":        {func(*testing.T, string) {}, "elsewhere", "elsewhere not found"},
		"one demo":              {func(t *testing.T, tmp string) { startFake(t, filepath.Join(tmp, "ringmaster-1"), true) }, "", "ringmaster-1"},
		"data folder given":     {func(t *testing.T, tmp string) { startFake(t, filepath.Join(tmp, "elsewhere"), true) }, "elsewhere", "elsewhere"},
		"data folder not given": {func(t *testing.T, tmp string) { startFake(t, filepath.Join(tmp, "elsewhere"), true) }, "", none},
		"several demos": {func(t *testing.T, tmp string) {
			startFake(t, filepath.Join(tmp, "ringmaster-1"), true)
			startFake(t, filepath.Join(tmp, "ringmaster-2"), true)
		}, "", "ringmaster-2"},
		"several demos, one given": {func(t *testing.T, tmp string) {
			startFake(t, filepath.Join(tmp, "ringmaster-1"), true)
			startFake(t, filepath.Join(tmp, "ringmaster-2"), true)
		}, "ringmaster-1", "ringmaster-1"},
		"one demo, one without example": {func(t *testing.T, tmp string) {
			startFake(t, filepath.Join(tmp, "ringmaster-1"), false)
			startFake(t, filepath.Join(tmp, "ringmaster-2"), true)
		}, "", "ringmaster-2"},
		"a demo without example": {func(t *testing.T, tmp string) { startFake(t, filepath.Join(tmp, "ringmaster-1"), false) }, "", "--example none"},
		"starting": {func(t *testing.T, tmp string) {
			f, err := openFolder(filepath.Join(tmp, "ringmaster-1"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.close() })
		}, "", "still starting"},
		"killed": {func(t *testing.T, tmp string) {
			f := startFake(t, filepath.Join(tmp, "ringmaster-1"), true)
			f.lock.Close() // as when the process is killed
		}, "", none},
		"invalid state": {func(t *testing.T, tmp string) {
			f := startFake(t, filepath.Join(tmp, "ringmaster-1"), true)
			if _, err := f.lock.WriteAt([]byte("broken"), 0); err != nil {
				t.Fatal(err)
			}
		}, "", "reading the state"},
		"a folder of tests": {func(t *testing.T, tmp string) {
			if err := os.Mkdir(filepath.Join(tmp, "ringmaster-rig-1"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "", none},
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
			if (err != nil) != (strings.Contains(test.want, " ") || name == "several demos") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestFindDoesNotBlockStart calls Find continuously while demos start.
func TestFindDoesNotBlockStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	done := make(chan struct{})
	polling := make(chan struct{})
	go func() {
		defer close(polling)
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
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
	<-polling
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
