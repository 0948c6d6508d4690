package control_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/demo/control"
)

// fakeDemo is a demo whose commands are carried out by a function.
type fakeDemo struct {
	do        func(ctx context.Context, request control.Request, progress func(string)) (string, error)
	processes []control.Process
}

func (d fakeDemo) List() []control.Process { return d.processes }

func (d fakeDemo) Do(ctx context.Context, request control.Request, progress func(string)) (string, error) {
	return d.do(ctx, request, progress)
}

// serve serves a demo, and returns the path of its socket.
func serve(t *testing.T, folder string, demo fakeDemo) (socket string) {
	t.Helper()
	listener, err := control.Listen(folder)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		control.Serve(t.Context(), listener, demo)
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return listener.Addr().String()
}

func send(ctx context.Context, socket string, request control.Request) (messages []string, err error) {
	err = control.Send(ctx, socket, request, func(message string) { messages = append(messages, message) })
	return messages, err
}

func TestSend(t *testing.T) {
	var got control.Request
	socket := serve(t, t.TempDir(), fakeDemo{do: func(_ context.Context, request control.Request, progress func(string)) (string, error) {
		got = request
		if request.Name == "missing" {
			return "all of it", errors.New("process not found")
		}
		progress("half of it")
		return "all of it", nil
	}})
	request := control.Request{Command: control.Kill, Name: "shard-0", Count: 3, Away: time.Second}
	messages, err := send(t.Context(), socket, request)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"half of it", "all of it"}, messages); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(request, got); diff != "" {
		t.Error(diff)
	}
	if messages, err := send(t.Context(), socket, control.Request{Name: "missing"}); len(messages) > 0 || err == nil || err.Error() != "process not found" {
		t.Errorf("got %q, %v", messages, err)
	}
}

func TestProcesses(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	want := []control.Process{
		{Name: "operator-0", State: "running", PID: 4711, Since: now},
		{Name: "operator-1", State: "waiting", Restarts: 1, Since: now, LastExit: "killed by you", RestartAt: &now},
	}
	got, err := control.Processes(t.Context(), serve(t, t.TempDir(), fakeDemo{processes: want}))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
	none, err := control.Processes(t.Context(), serve(t, t.TempDir(), fakeDemo{}))
	if err != nil || none == nil || len(none) != 0 {
		t.Errorf("got %v, %v", none, err)
	}
}

func TestSocketIsPrivate(t *testing.T) {
	folder, err := os.MkdirTemp("/tmp", "rm-") //nolint:usetesting // that of the test may have a long path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := serve(t, folder, fakeDemo{})
	for path, want := range map[string]os.FileMode{filepath.Dir(socket): 0o700, socket: 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s is %v, want %v: %v", path, info.Mode().Perm(), want, err)
		}
	}
	if filepath.Dir(filepath.Dir(socket)) != folder {
		t.Errorf("the socket %s is not in %s", socket, folder)
	}
}

// TestLongPath uses a folder whose path is too long for a socket.
func TestLongPath(t *testing.T) {
	folder := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := serve(t, folder, fakeDemo{do: func(context.Context, control.Request, func(string)) (string, error) { return "here", nil }})
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(socket)) })
	if messages, err := send(t.Context(), socket, control.Request{}); err != nil || len(messages) != 1 {
		t.Errorf("got %q, %v", messages, err)
	}
	if info, err := os.Stat(filepath.Dir(socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v", info, err)
	}
}

// TestListenRemovesStaleSocket listens where a killed demo has left its socket.
func TestListenRemovesStaleSocket(t *testing.T) {
	folder := t.TempDir()
	stale, err := control.Listen(folder)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	if _, err := send(t.Context(), stale.Addr().String(), control.Request{}); err == nil {
		t.Error("a request to a stale socket succeeded")
	}
	serve(t, folder, fakeDemo{})
}

func TestInvalidRequest(t *testing.T) {
	conn, err := net.Dial("unix", serve(t, t.TempDir(), fakeDemo{}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("scale 5\n")); err != nil {
		t.Fatal(err)
	}
	response := make([]byte, 1024)
	n, err := conn.Read(response)
	if err != nil || !strings.Contains(string(response[:n]), "invalid request") {
		t.Errorf("got %s, %v", response[:n], err)
	}
}

// TestCancelledRequest expects that a command is cancelled when its client disconnects.
func TestCancelledRequest(t *testing.T) {
	started, ended := make(chan struct{}), make(chan struct{})
	socket := serve(t, t.TempDir(), fakeDemo{do: func(ctx context.Context, _ control.Request, _ func(string)) (string, error) {
		close(started)
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	if _, err := send(ctx, socket, control.Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ended
}
