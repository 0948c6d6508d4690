//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Spec describes a process.
type Spec struct {
	// Name is the name of the process in messages.
	Name string
	// Path is the path of the executable, and Args its arguments.
	Path string
	Args []string
	// Env is the whole environment. The zero value inherits this process's.
	Env []string
	// Dir is the working directory. The zero value is this process's.
	Dir string
	// Log is the file to which standard output and error are appended.
	Log string
}

// Process is a started program. It is safe for concurrent use.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{}
	err  error // written before done is closed
}

// Start runs the program that spec names.
func Start(spec Spec) (*Process, error) {
	out, err := os.OpenFile(spec.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", spec.Name, err)
	}
	defer out.Close() // the child has its own descriptor

	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()

	watch, err := watcher()
	if err != nil {
		return nil, err
	}
	if err := spawn(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	p := &Process{spec: spec, cmd: cmd, done: make(chan struct{})}
	watch.add(processRecord, strconv.Itoa(p.PID()))
	go p.wait(watch)
	return p, nil
}

func (p *Process) wait(watch *reaper) {
	p.err = p.cmd.Wait()
	// Its descendants must end as well. The ID of a process group is not reused while a member lives,
	// nor immediately after.
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	watch.remove(processRecord, strconv.Itoa(p.PID()))
	close(p.done)
}

// Name returns the name in the Spec.
func (p *Process) Name() string { return p.spec.Name }

// PID returns the ID of the process and of its process group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended. A paused process is running.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits for the process to end and returns its exit error, or nil for exit code 0.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s to end: %w", p.spec.Name, ctx.Err())
	}
}

// Signal sends a signal to the process. It returns nil if the process has ended.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to %s: %w", sig, p.spec.Name, err)
	}
	return nil
}

// Stop terminates the process, and kills it if it has not ended when ctx ends. It returns when the
// process has ended.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	// A paused process receives the signal when it resumes.
	if err := p.Resume(); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return p.Kill()
	}
}

// Kill kills the process and its descendants, and returns when it has ended.
func (p *Process) Kill() error {
	if !p.Running() {
		return nil
	}
	if err := syscall.Kill(-p.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing %s: %w", p.spec.Name, err)
	}
	<-p.done
	return nil
}

// Pause suspends the process, which keeps its memory and connections.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	// The signal stops one thread after the other, so threads on other cores continue for a moment.
	const maxWait, pause = 2 * time.Second, time.Millisecond
	for waited := time.Duration(0); waited < maxWait && !stopped(p.PID()); waited += pause {
		time.Sleep(pause)
	}
	return nil
}

// stopped reports whether all threads of a process are stopped. It returns true on systems without /proc.
func stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return true
	}
	for _, thread := range threads {
		content, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		// The state follows the program's name, which is in parentheses.
		if _, after, found := strings.Cut(string(content), ") "); found && !strings.HasPrefix(after, "T") {
			return false
		}
	}
	return true
}

// Resume resumes a paused process.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Tail returns the last n lines of the process's log.
func (p *Process) Tail(n int) string { return Tail(p.spec.Log, n) }

// tailBytes bounds how much of a log is read for its last lines.
const tailBytes = 64 << 10

// Tail returns the last n lines of a file for a message, or why it could not be read.
func Tail(path string, n int) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(bytes.TrimRight(content, "\n")), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// watcher returns the reaper of this process, which is started with the first child.
var watcher = sync.OnceValues(startReaper)
