// Package control is the control socket of a running demo: other programs of the same user send
// commands to it.
//
// It guarantees that no other user can connect: the socket is in a folder that only its owner can
// enter. Requests and responses are JSON objects, one request for each connection.
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
	// List returns the processes of the demo.
	List = "list"
	// Scale runs Count instances.
	Scale = "scale"
	// Kill sends SIGKILL to a process, and restarts it after Away.
	Kill = "kill"
	// Stop sends SIGTERM to a process, which then stays stopped.
	Stop = "stop"
	// Pause sends SIGSTOP to a process. Resume sends SIGCONT, or starts the process if it does not
	// run.
	Pause  = "pause"
	Resume = "resume"
	// Websites creates websites until Count exist.
	Websites = "websites"
	// Restart makes all members of the etcd cluster restart. Replace replaces one member of every
	// region.
	Restart = "restart"
	Replace = "replace"
)

// Request is a command with its arguments.
type Request struct {
	Command string `json:"command"`
	// Name is the process that the command is about.
	Name  string `json:"name,omitempty"`
	Count int    `json:"count,omitempty"`
	// Away is how long a killed process stays down.
	Away time.Duration `json:"away,omitempty"`
}

// Response is the result of a request, or its progress.
type Response struct {
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
	// Processes is the result of List.
	Processes []Process `json:"processes,omitempty"`
	// Done is true in the last response.
	Done bool `json:"done,omitempty"`
}

// Process is the status of a process of the demo.
type Process struct {
	Name string `json:"name"`
	// State is starting, running, paused, stopping, waiting (until it is restarted) or stopped.
	State string `json:"state"`
	// PID is the process ID. It is 0 if the process does not run.
	PID      int `json:"pid,omitempty"`
	Restarts int `json:"restarts"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// LastExit is why the process exited last.
	LastExit string `json:"lastExit,omitempty"`
	// RestartAt is when a waiting process is restarted.
	RestartAt *time.Time `json:"restartAt,omitempty"`
}

// Demo carries out requests.
type Demo interface {
	// List returns the status of all processes.
	List() []Process
	// Do carries out a command, reports its progress, and returns a message about the result.
	Do(ctx context.Context, request Request, progress func(string)) (string, error)
}

// maxPathLength is a length that every operating system accepts for the path of a socket.
const maxPathLength = 100

// Listen creates the socket in a folder, or in a temporary folder if the path would be too long for
// a socket.
func Listen(folder string) (net.Listener, error) {
	path := filepath.Join(folder, "control", "socket")
	if len(path) > maxPathLength {
		short, err := os.MkdirTemp("/tmp", "rm-control-")
		if err != nil {
			return nil, fmt.Errorf("creating a folder for the control socket: %w", err)
		}
		if err := process.RemoveOnExit(short); err != nil {
			return nil, err
		}
		path = filepath.Join(short, "socket")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("creating a folder for the control socket: %w", err)
	}
	// A demo that was killed leaves its socket behind. The caller has locked the folder, so that
	// demo is gone.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing an old control socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("creating the control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("creating the control socket: %w", err), listener.Close())
	}
	return listener, nil
}

// Serve answers requests until the listener is closed.
func Serve(ctx context.Context, listener net.Listener, demo Demo) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			serveRequest(ctx, conn, demo)
		}()
	}
}

// serveRequest carries out one request. It is cancelled when the client disconnects.
func serveRequest(ctx context.Context, conn net.Conn, demo Demo) {
	const timeout, maxSize = 10 * time.Second, 64 << 10
	_ = conn.SetReadDeadline(time.Now().Add(timeout))
	out := json.NewEncoder(conn)
	request := Request{}
	if err := json.NewDecoder(io.LimitReader(conn, maxSize)).Decode(&request); err != nil {
		_ = out.Encode(Response{Error: "invalid request: " + err.Error(), Done: true})
		return
	}
	if request.Command == List {
		_ = out.Encode(Response{Processes: demo.List(), Done: true})
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, conn) // returns when the client has disconnected
		cancel()
	}()
	message, err := demo.Do(ctx, request, func(text string) { _ = out.Encode(Response{Message: text}) })
	last := Response{Message: message, Done: true}
	if err != nil {
		last = Response{Error: err.Error(), Done: true} // no message: the command did not succeed
	}
	_ = out.Encode(last)
}

// Send sends a request to the demo at a socket, and passes the messages of its responses to
// printLine.
func Send(ctx context.Context, socket string, request Request, printLine func(string)) error {
	return exchange(ctx, socket, request, func(response Response) {
		if response.Message != "" {
			printLine(response.Message)
		}
	})
}

// Processes returns the processes of the demo at a socket.
func Processes(ctx context.Context, socket string) ([]Process, error) {
	processes := []Process{}
	err := exchange(ctx, socket, Request{Command: List}, func(response Response) {
		processes = append(processes, response.Processes...)
	})
	return processes, err
}

// exchange sends a request, and calls handle with each response.
func exchange(ctx context.Context, socket string, request Request, handle func(Response)) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("connecting to 'ringmaster up': %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return fmt.Errorf("sending the command to 'ringmaster up': %w", err)
	}
	for responses := json.NewDecoder(conn); ; {
		response := Response{}
		if err := responses.Decode(&response); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("'ringmaster up' ended before it answered: %w", err)
		}
		handle(response)
		if response.Error != "" {
			return errors.New(response.Error)
		}
		if response.Done {
			return nil
		}
	}
}
