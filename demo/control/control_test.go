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

// serve answers with the handler, and returns where.
func serve(t *testing.T, folder string, handle control.Handler) (socket string) {
	t.Helper()
	listener, err := control.Listen(folder)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		control.Serve(t.Context(), listener, handle)
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return listener.Addr().String()
}

func ask(ctx context.Context, socket string, request control.Request) (said []string, err error) {
	err = control.Ask(ctx, socket, request, func(message string) { said = append(said, message) })
	return said, err
}

func TestAsk(t *testing.T) {
	var got control.Request
	socket := serve(t, t.TempDir(), func(_ context.Context, request control.Request, say func(string)) (string, error) {
		got = request
		if request.Name == "wrong" {
			return "all of it", errors.New("there is no such instance")
		}
		say("half of it")
		return "all of it", nil
	})
	request := control.Request{Command: control.Kill, Name: "shard-0", Count: 3, Away: time.Second}
	said, err := ask(t.Context(), socket, request)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"half of it", "all of it"}, said); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(request, got); diff != "" {
		t.Error(diff)
	}
	if said, err := ask(t.Context(), socket, control.Request{Name: "wrong"}); len(said) > 0 || err == nil || err.Error() != "there is no such instance" {
		t.Errorf("got %q, %v", said, err)
	}
}

func TestOnlyTheUserCanAsk(t *testing.T) {
	folder, err := os.MkdirTemp("/tmp", "rm-") //nolint:usetesting // that of the test may have a long path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := serve(t, folder, nil)
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

// TestDeepFolder has a path that no socket can have.
func TestDeepFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := serve(t, folder, func(context.Context, control.Request, func(string)) (string, error) { return "here", nil })
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(socket)) })
	if said, err := ask(t.Context(), socket, control.Request{}); err != nil || len(said) != 1 {
		t.Errorf("got %q, %v", said, err)
	}
	if info, err := os.Stat(filepath.Dir(socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v", info, err)
	}
}

// TestSocketOfOneThatWasKilled is in the way of nobody.
func TestSocketOfOneThatWasKilled(t *testing.T) {
	folder := t.TempDir()
	left, err := control.Listen(folder)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()
	if _, err := ask(t.Context(), left.Addr().String(), control.Request{}); err == nil {
		t.Error("nobody is there, and somebody answered")
	}
	serve(t, folder, nil)
}

func TestNoRequest(t *testing.T) {
	conn, err := net.Dial("unix", serve(t, t.TempDir(), nil))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("scale 5\n")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1024)
	n, err := conn.Read(answer)
	if err != nil || !strings.Contains(string(answer[:n]), "not a request") {
		t.Errorf("got %s, %v", answer[:n], err)
	}
}

// TestEndedWhileItAnswers ends what was asked for with the one who asked.
func TestEndedWhileItAnswers(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan struct{})
	socket := serve(t, t.TempDir(), func(ctx context.Context, _ control.Request, _ func(string)) (string, error) {
		close(asked)
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := ask(ctx, socket, control.Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ended
}
