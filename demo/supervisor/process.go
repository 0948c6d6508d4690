package supervisor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// Phase is the state of a process.
type Phase string

// The phases of a process.
const (
	// Starting: the process is being prepared.
	Starting Phase = "starting"
	// Running: the process runs.
	Running Phase = "running"
	// Paused: the process exists but was stopped by SIGSTOP.
	Paused Phase = "paused"
	// Stopping: the process was asked to exit.
	Stopping Phase = "stopping"
	// Waiting: the process has exited and is restarted after a delay.
	Waiting Phase = "waiting"
	// Stopped: the process has exited and is started again only by Resume or Add.
	Stopped Phase = "stopped"
)

// ProcessStatus is the observed state of a process.
type ProcessStatus struct {
	Name  string
	Phase Phase
	// PID is the process ID, or 0 if the process does not run.
	PID int
	// Since is when the phase began. For a process that runs, it is when the process was started.
	Since time.Time
	// Restarts is how often the process was restarted.
	Restarts int
	// Note is why the process exited last, or empty.
	Note string
	// RestartAt is when a waiting process is restarted.
	RestartAt time.Time
	// KeepRunning is true if the process is restarted when it exits. Removing is true if it is
	// forgotten then.
	KeepRunning, Removing bool
}

// forControl returns the status as clients of the control socket see it.
func (p *ProcessStatus) forControl() control.Process {
	status := control.Process{
		Name: p.Name, State: string(p.Phase), PID: p.PID, Restarts: p.Restarts, Since: p.Since, LastExit: p.Note,
	}
	if !p.RestartAt.IsZero() {
		status.RestartAt = &p.RestartAt
	}
	return status
}

// desiredState is the state that a process should reach.
type desiredState int

const (
	desiredRunning desiredState = iota
	desiredStopped
	desiredRemoved
)

// managedProcess is a process with its desired state. The supervisor's mutex protects it.
type managedProcess struct {
	ProcessStatus
	program Program
	desired desiredState
	current *process.Process
	// killed is true after Kill, restartAfter is the delay that Kill was given.
	killed       bool
	restartAfter time.Duration
	// failures is how often in a row the process exited by itself.
	failures int
	wake     chan struct{}
	removed  chan struct{}
}

func (m *managedProcess) setPhase(phase Phase, now time.Time) {
	m.Phase, m.Since = phase, now
	if phase != Waiting {
		m.RestartAt = time.Time{}
	}
}

// exit describes how a process exited.
type exit struct {
	desired      desiredState
	killed       bool // by Kill
	asked        bool // by Stop or Remove
	restartAfter time.Duration
	failures     int // in a row, before this one
	uptime       time.Duration
	err          error
	lastLine     string
}

// decision is the next state of a process that has exited.
type decision struct {
	phase        Phase // Waiting or Stopped
	restartAfter time.Duration
	failures     int
	note         string
}

const (
	initialBackoff = time.Second
	maxBackoff     = 30 * time.Second
	// resetBackoffAfter is the uptime after which the failures of a process are forgotten.
	resetBackoffAfter = time.Minute
)

// decide returns the next state of a process that has exited.
func decide(e exit) decision {
	switch {
	case e.desired == desiredRemoved:
		return decision{phase: Stopped, note: "stopped"}
	case e.desired == desiredStopped:
		return decision{phase: Stopped, note: "stopped by you"}
	case e.killed:
		return decision{phase: Waiting, restartAfter: e.restartAfter, note: "killed by you"}
	case e.asked:
		return decision{phase: Waiting, note: "stopped by you"}
	}
	failures := e.failures + 1
	if e.uptime >= resetBackoffAfter {
		failures = 1
	}
	return decision{phase: Waiting, restartAfter: backoff(failures), failures: failures, note: reason(e)}
}

// backoff returns the delay after a number of failures in a row.
func backoff(failures int) time.Duration {
	delay := initialBackoff
	for range failures - 1 {
		if delay *= 2; delay >= maxBackoff {
			return maxBackoff
		}
	}
	return delay
}

// reason returns why a process exited by itself. Our programs print the reason as their last line.
func reason(e exit) string {
	if text, found := strings.CutPrefix(e.lastLine, "Error: "); found && e.err != nil {
		return "ended: " + text
	}
	if e.err == nil {
		return "ended without being asked to"
	}
	return "crashed: " + e.err.Error()
}

// exitOf returns how the process exited.
func (m *managedProcess) exitOf(running *process.Process, uptime time.Duration) exit {
	return exit{
		killed: m.killed, asked: m.Phase == Stopping, restartAfter: m.restartAfter, failures: m.failures, uptime: uptime,
		err: running.Wait(context.Background()), lastLine: running.Tail(1),
	}
}

// notRunningError explains why the process cannot be signalled.
func (m *managedProcess) notRunningError() error {
	switch m.Phase {
	case Starting:
		return fmt.Errorf("%s is still starting: try again in a moment", m.Name)
	case Stopped:
		return fmt.Errorf("%s is not running (%s): start it with 'resume'", m.Name, m.Note)
	}
	return fmt.Errorf("%s is not running (%s): it restarts soon, or at once with 'resume'", m.Name, m.Note)
}
