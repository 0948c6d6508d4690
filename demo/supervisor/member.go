package supervisor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/process"
)

// Phase is what a process is doing.
type Phase string

// The phases.
const (
	// Starting: it is being prepared.
	Starting Phase = "starting"
	// Running: it is there.
	Running Phase = "running"
	// Paused: it is there and does nothing.
	Paused Phase = "paused"
	// Stopping: it was asked to end.
	Stopping Phase = "stopping"
	// Waiting: it has ended, and is started again after a while.
	Waiting Phase = "waiting"
	// Stopped: it has ended, and stays away until it is resumed.
	Stopped Phase = "stopped"
)

// Member is a process as others see it.
type Member struct {
	Name  string
	Phase Phase
	// PID is its number, or 0 when it is not there.
	PID int
	// Since is when the phase began; of a process that runs, when it was started.
	Since time.Time
	// Restarts is how often it was started again.
	Restarts int
	// Note is why it ended the last time, if it has.
	Note string
	// Again is when it is started again, if it is waiting.
	Again time.Time
	// Wanted is set when it is to run, Dismissed when it is to be forgotten after its end.
	Wanted, Dismissed bool
}

// wish is what is to become of a process in the end.
type wish int

const (
	run wish = iota
	rest
	leave
)

// member is a process with what it was told. The crew's lock protects it.
type member struct {
	Member
	program Program
	wish    wish
	current *process.Process
	// killed is set when somebody killed the process, away is for how long it then stays away.
	killed bool
	away   time.Duration
	// failures are how often in a row it ended by itself.
	failures int
	wake     chan struct{}
	gone     chan struct{}
}

func (m *member) set(phase Phase, now time.Time) {
	m.Phase, m.Since = phase, now
	if phase != Waiting {
		m.Again = time.Time{}
	}
}

// end is how a process ended.
type end struct {
	wish     wish
	killed   bool
	asked    bool // to end
	away     time.Duration
	failures int // in a row, before this one
	ran      time.Duration
	err      error
	lastLine string
}

// verdict is what becomes of a process that has ended.
type verdict struct {
	phase    Phase // Waiting or Stopped
	after    time.Duration
	failures int
	note     string
}

const (
	firstBackOff = time.Second
	lastBackOff  = 30 * time.Second
	// healthy is how long a process has to run for its failures to be forgotten.
	healthy = time.Minute
)

// judge decides what becomes of a process that has ended.
func judge(e end) verdict {
	switch {
	case e.wish == leave:
		return verdict{phase: Stopped, note: "stopped"}
	case e.wish == rest:
		return verdict{phase: Stopped, note: "stopped by you"}
	case e.killed:
		return verdict{phase: Waiting, after: e.away, note: "killed by you"}
	case e.asked:
		return verdict{phase: Waiting, note: "stopped by you"}
	}
	failures := e.failures + 1
	if e.ran >= healthy {
		failures = 1
	}
	return verdict{phase: Waiting, after: backOff(failures), failures: failures, note: reason(e)}
}

// backOff is how long to wait after a number of failures in a row.
func backOff(failures int) time.Duration {
	after := firstBackOff
	for range failures - 1 {
		if after *= 2; after >= lastBackOff {
			return lastBackOff
		}
	}
	return after
}

// reason tells why a process ended by itself. One that knows why says it in its last line.
func reason(e end) string {
	if said, is := strings.CutPrefix(e.lastLine, "Error: "); is && e.err != nil {
		return "ended: " + said
	}
	if e.err == nil {
		return "ended without being asked to"
	}
	return "crashed: " + e.err.Error()
}

// ended reads how the process ended.
func (m *member) ended(running *process.Process, ran time.Duration) end {
	return end{
		killed: m.killed, asked: m.Phase == Stopping, away: m.away, failures: m.failures, ran: ran,
		err: running.Wait(context.Background()), lastLine: running.Tail(1),
	}
}

// absentError says why there is nothing to send a signal to.
func (m *member) absentError() error {
	switch m.Phase {
	case Starting:
		return fmt.Errorf("%s is just being started: try again in a moment", m.Name)
	case Stopped:
		return fmt.Errorf("%s is not running (%s): start it with 'resume'", m.Name, m.Note)
	}
	return fmt.Errorf("%s is not running (%s): it is started again soon, or at once with 'resume'", m.Name, m.Note)
}
