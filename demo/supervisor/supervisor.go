package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// Program is a named program that the supervisor runs.
type Program struct {
	Name string
	// Prepare is called before each start, and returns the process to start.
	Prepare func(context.Context) (process.Spec, error)
}

// Options are the callbacks and limits of a supervisor.
type Options struct {
	// Report receives a description of everything that happens to a process, and whether it is a
	// failure.
	Report func(name, message string, failure bool)
	// Removed is called when a process has been removed.
	Removed func(name string)
	// Changed is called when Processes returns something new.
	Changed func()
	// GracePeriod is how long a process that was asked to exit may take before it is killed.
	GracePeriod time.Duration
	// ResumeHint names the commands that start a stopped process. The default is 'resume'.
	ResumeHint string
}

// Supervisor runs a set of named processes.
type Supervisor struct {
	options Options
	ctx     context.Context // ends preparations
	cancel  context.CancelFunc

	mu        sync.Mutex
	processes []*managedProcess // in the order in which they were added
	closed    bool
}

// errClosed rejects commands after Close, which would otherwise wait forever for a process that
// they restart.
var errClosed = errors.New("the demo is stopping, and rejects commands")

// New returns a supervisor without processes.
func New(options Options) *Supervisor {
	ctx, cancel := context.WithCancel(context.Background())
	return &Supervisor{options: options, ctx: ctx, cancel: cancel}
}

// Add starts a program and keeps it running. If a process of this name is stopped or stopping, it
// is started again.
func (s *Supervisor) Add(program Program) error {
	defer s.options.Changed()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if m := s.find(program.Name); m != nil {
		m.resume()
		return nil
	}
	m := &managedProcess{
		ProcessStatus: ProcessStatus{Name: program.Name, Phase: Starting, Since: time.Now()}, program: program,
		wake: make(chan struct{}, 1), removed: make(chan struct{}),
	}
	s.processes = append(s.processes, m)
	go s.supervise(m)
	return nil
}

func (s *Supervisor) find(name string) *managedProcess {
	for _, m := range s.processes {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// resume starts a process now, or, if it is stopping, as soon as it has exited.
func (m *managedProcess) resume() {
	m.desired, m.RestartAt = desiredRunning, time.Time{}
	m.wakeUp()
}

// wakeUp makes waitForStart look at the desired state.
func (m *managedProcess) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Processes returns the status of all processes, in the order in which they were added.
func (s *Supervisor) Processes() []ProcessStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]ProcessStatus, 0, len(s.processes))
	for _, m := range s.processes {
		status := m.ProcessStatus
		status.KeepRunning, status.Removing = m.desired == desiredRunning, m.desired == desiredRemoved
		all = append(all, status)
	}
	return all
}

// List returns the status of all processes for clients of the control socket.
func (s *Supervisor) List() []control.Process {
	var all []control.Process
	for _, status := range s.Processes() {
		all = append(all, status.forControl())
	}
	return all
}

// supervise runs a process again and again until it is removed.
func (s *Supervisor) supervise(m *managedProcess) {
	defer close(m.removed)
	for {
		s.runOnce(m)
		if !s.waitForStart(m) {
			return
		}
	}
}

// waitForStart waits until a process that has exited should run again. It returns false if the
// process was removed.
func (s *Supervisor) waitForStart(m *managedProcess) bool {
	for {
		s.mu.Lock()
		desired, delay := m.desired, time.Until(m.RestartAt)
		s.mu.Unlock()
		var timer <-chan time.Time
		switch {
		case desired == desiredRemoved && s.remove(m):
			return false
		case desired == desiredRunning && delay <= 0:
			return true
		case desired == desiredRunning:
			timer = time.After(delay)
		}
		select {
		case <-timer:
		case <-m.wake:
		}
	}
}

// remove forgets a process that has exited, unless Add was called for it in the meantime.
func (s *Supervisor) remove(m *managedProcess) (removed bool) {
	s.options.Removed(m.Name)
	s.change(func() {
		if removed = m.desired == desiredRemoved; removed {
			s.processes = slices.DeleteFunc(s.processes, func(other *managedProcess) bool { return other == m })
		}
	})
	return removed
}

// runOnce runs a process until it exits, and records the exit.
func (s *Supervisor) runOnce(m *managedProcess) {
	running, err := s.start(m)
	if err != nil {
		s.mu.Lock()
		e := exit{failures: m.failures, asked: errors.Is(err, errStopped), err: fmt.Errorf("cannot be started: %w", err)}
		s.mu.Unlock()
		s.recordExit(m, e)
		return
	}
	startedAt := time.Now()
	<-running.Done()
	s.mu.Lock()
	e := m.exitOf(running, time.Since(startedAt))
	s.mu.Unlock()
	s.recordExit(m, e)
}

// errStopped is returned when a process was stopped or removed while it was prepared.
var errStopped = errors.New("it was stopped meanwhile")

func (s *Supervisor) start(m *managedProcess) (*process.Process, error) {
	s.change(func() { m.setPhase(Starting, time.Now()) })
	spec, err := m.program.Prepare(s.ctx)
	if err != nil {
		return nil, err
	}
	var running *process.Process
	s.change(func() {
		if m.desired != desiredRunning {
			err = errStopped
			return
		}
		if running, err = process.Start(spec); err == nil {
			m.current, m.PID, m.killed = running, running.PID(), false
			m.setPhase(Running, time.Now())
		}
	})
	if err == nil {
		s.report(m.Name, fmt.Sprintf("started as process %d", running.PID()), false)
	}
	return running, err
}

// recordExit decides the next state of a process that has exited, and reports it.
func (s *Supervisor) recordExit(m *managedProcess, e exit) {
	var next decision
	note := ""
	s.change(func() {
		e.desired = m.desired // may have changed since the exit
		next = decide(e)
		now := time.Now()
		note = next.note
		m.current, m.PID, m.Note, m.failures = nil, 0, next.note, next.failures
		switch next.phase {
		case Waiting:
			m.setPhase(Waiting, now)
			m.RestartAt = now.Add(next.restartAfter)
			m.Restarts++
			note += fmt.Sprintf("; restarts in %s", next.restartAfter)
		default:
			m.setPhase(Stopped, now)
		}
	})
	s.report(m.Name, note, next.failures > 0)
}

func (s *Supervisor) change(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.options.Changed()
}

func (s *Supervisor) report(name, message string, failure bool) {
	s.options.Report(name, message, failure)
	s.options.Changed()
}

// Names returns the names of all processes.
func (s *Supervisor) Names() []string {
	var names []string
	for _, status := range s.Processes() {
		names = append(names, status.Name)
	}
	return names
}

// NotFoundError returns the error for a name that no process has. It lists the names that exist.
func NotFoundError(name string, available []string) error {
	return fmt.Errorf("process %q not found (available: %s)", name, strings.Join(available, ", "))
}

// withProcess calls do with the process of that name.
func (s *Supervisor) withProcess(name string, do func(*managedProcess) error) error {
	names := s.Names()
	defer s.options.Changed()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	m := s.find(name)
	if m == nil {
		return NotFoundError(name, names)
	}
	return do(m)
}

// Kill sends SIGKILL to a process. The process is restarted after the delay.
func (s *Supervisor) Kill(name string, restartAfter time.Duration) error {
	return s.withProcess(name, func(m *managedProcess) error {
		if m.current == nil {
			return m.notRunningError()
		}
		m.killed, m.restartAfter = true, restartAfter
		return m.current.Signal(syscall.SIGKILL)
	})
}

// Stop sends SIGTERM to a process. The process stays stopped until Resume or Add.
func (s *Supervisor) Stop(name string) error {
	return s.withProcess(name, func(m *managedProcess) error {
		if m.Phase == Stopped {
			return fmt.Errorf("%s is already stopped: start it with %s", name, s.resumeHint())
		}
		return s.terminate(m, desiredStopped)
	})
}

// Remove sends SIGTERM to a process, and forgets the process when it has exited.
func (s *Supervisor) Remove(name string) error {
	return s.withProcess(name, func(m *managedProcess) error { return s.terminate(m, desiredRemoved) })
}

// terminate asks a process to exit, and kills it after the grace period.
func (s *Supervisor) terminate(m *managedProcess, desired desiredState) error {
	m.desired = desired
	if m.current == nil {
		if desired == desiredStopped {
			m.Note = "stopped by you"
			m.setPhase(Stopped, time.Now())
		}
		m.wakeUp()
		return nil
	}
	m.setPhase(Stopping, time.Now())
	current := m.current
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.options.GracePeriod)
		defer cancel()
		_ = current.Stop(ctx) // fails only if the process has already exited
	}()
	return nil
}

// Pause sends SIGSTOP to a process.
func (s *Supervisor) Pause(name string) error {
	return s.withProcess(name, func(m *managedProcess) error {
		switch {
		case m.current == nil:
			return m.notRunningError()
		case m.Phase != Running:
			return fmt.Errorf("%s is already %s: resume it with 'resume'", name, m.Phase)
		}
		m.Phase = Paused
		return m.current.Pause()
	})
}

// Resume sends SIGCONT to a paused process, and starts a process that does not run.
func (s *Supervisor) Resume(name string) error {
	return s.withProcess(name, func(m *managedProcess) error {
		switch {
		case m.current == nil:
			m.resume()
			return nil
		case m.Phase != Paused:
			return fmt.Errorf("%s is %s: only a paused, stopped or killed process can be resumed", name, m.Phase)
		}
		m.Phase = Running
		return m.current.Resume()
	})
}

// Close stops and removes all processes, and kills those that still run when ctx ends. Later
// commands fail.
func (s *Supervisor) Close(ctx context.Context) {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	processes := slices.Clone(s.processes)
	for _, m := range processes {
		_ = s.terminate(m, desiredRemoved) // cannot fail
	}
	s.mu.Unlock()
	for _, m := range processes {
		select {
		case <-m.removed:
		case <-ctx.Done():
			s.mu.Lock()
			current := m.current
			s.mu.Unlock()
			if current != nil {
				_ = current.Kill() // the kernel kills it too when this process exits
			}
			<-m.removed
		}
	}
}
