// Package control lets programs of the same user tell a running demo what to do.
//
// It promises that nobody else can: the socket is in a folder that only the user can enter. A request and
// its answers are JSON objects, one request a connection.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/process"
)

// The commands.
const (
	// Scale makes Count instances run.
	Scale = "scale"
	// Kill ends an instance at once, and starts it again after Away.
	Kill = "kill"
	// Stop asks an instance to end, and to stay away.
	Stop = "stop"
	// Pause and Resume stop an instance where it is, and let it go on.
	Pause  = "pause"
	Resume = "resume"
	// Websites creates websites until there are Count.
	Websites = "websites"
	// Restart makes all members of a system need to be restarted, Replace one of every region to be replaced.
	Restart = "restart"
	Replace = "replace"
)

// Request is what is to be done.
type Request struct {
	Command string `json:"command"`
	// Name is the instance that it is about.
	Name  string `json:"name,omitempty"`
	Count int    `json:"count,omitempty"`
	// Away is how long a killed instance stays away.
	Away time.Duration `json:"away,omitempty"`
}

// Answer is what came of a request, or how it is getting on.
type Answer struct {
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
	// Done is set in the last answer.
	Done bool `json:"done,omitempty"`
}

// Handler does what is asked, tells how it is getting on, and returns what came of it.
type Handler func(ctx context.Context, request Request, say func(string)) (string, error)

// longestPath is what every system takes as the path of a socket.
const longestPath = 100

// Listen makes the socket in a folder, or elsewhere if its path would be too long for a socket.
func Listen(folder string) (net.Listener, error) {
	path := filepath.Join(folder, "control", "socket")
	if len(path) > longestPath {
		short, err := os.MkdirTemp("/tmp", "rm-control-")
		if err != nil {
			return nil, fmt.Errorf("making a folder for the control socket: %w", err)
		}
		if err := process.RemoveOnExit(short); err != nil {
			return nil, err
		}
		path = filepath.Join(short, "socket")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for the control socket: %w", err)
	}
	// One that was killed has left its socket behind. The caller knows that it is not alive.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing an old control socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("making the control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("making the control socket: %w", err), listener.Close())
	}
	return listener, nil
}

// Serve answers requests until the listener is closed.
func Serve(ctx context.Context, listener net.Listener, handle Handler) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			answer(ctx, conn, handle)
		}()
	}
}

// answer does what one request asks for, as long as the one who asks waits for the answer.
func answer(ctx context.Context, conn net.Conn, handle Handler) {
	const patience, most = 10 * time.Second, 64 << 10
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	out := json.NewEncoder(conn)
	request := Request{}
	if err := json.NewDecoder(io.LimitReader(conn, most)).Decode(&request); err != nil {
		_ = out.Encode(Answer{Error: "this is not a request: " + err.Error(), Done: true})
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, conn) // there is no more to read, until the other side is gone
		cancel()
	}()
	message, err := handle(ctx, request, func(said string) { _ = out.Encode(Answer{Message: said}) })
	last := Answer{Message: message, Done: true}
	if err != nil {
		last = Answer{Error: err.Error(), Done: true} // what has failed is not to be told as done
	}
	_ = out.Encode(last)
}

// Ask sends a request, and tells say what is answered.
func Ask(ctx context.Context, socket string, request Request, say func(string)) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("reaching 'ringmaster up': %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return fmt.Errorf("asking 'ringmaster up': %w", err)
	}
	for answers := json.NewDecoder(conn); ; {
		answer := Answer{}
		if err := answers.Decode(&answer); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("'ringmaster up' ended before it answered: %w", err)
		}
		if answer.Message != "" {
			say(answer.Message)
		}
		if answer.Error != "" {
			return errors.New(answer.Error)
		}
		if answer.Done {
			return nil
		}
	}
}
