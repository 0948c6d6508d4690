//go:build unix

package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// stopTimeout is how long etcd has to stop gracefully. It would wait seven seconds for the streams of its
	// clients, and only then transfer its leadership, so move the leader before. No acknowledged write is lost if
	// it is killed.
	stopTimeout = 1500 * time.Millisecond
	// minBackoff and maxBackoff limit the backoff before a crashed process is started again.
	minBackoff, maxBackoff = 100 * time.Millisecond, 5 * time.Second
	// stableAfter is how long a process has to run to reset the backoff.
	stableAfter = 10 * time.Second
	// maxLogSize is the size of a log after which a new one is begun.
	maxLogSize = 16 << 20
)

// supervisor keeps a process running until it is stopped.
type supervisor struct {
	etcd   string
	log    string
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	args  []string
	state processState
}

// processState is the state of a process.
type processState struct {
	pid     int
	since   time.Time
	crashes int
	problem string
}

// startSupervisor starts a process and returns after the first attempt.
func startSupervisor(etcd string, args []string, log string) *supervisor {
	ctx, cancel := context.WithCancel(context.Background())
	k := &supervisor{etcd: etcd, args: args, log: log, cancel: cancel, done: make(chan struct{})}
	tried := make(chan struct{})
	go k.run(ctx, sync.OnceFunc(func() { close(tried) }))
	<-tried
	return k
}

// stop stops the process, kills it after a timeout, and returns when it has ended.
func (k *supervisor) stop() {
	if k == nil {
		return
	}
	k.cancel()
	<-k.done
}

func (k *supervisor) status() processState {
	if k == nil {
		return processState{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// setArgs sets the arguments for the next start of the process.
func (k *supervisor) setArgs(args []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.args = args
}

func (k *supervisor) run(ctx context.Context, tried func()) {
	defer close(k.done)
	for ctx.Err() == nil {
		began, from := time.Now(), fileSize(k.log)
		cmd, err := k.start()
		if err == nil {
			k.update(func(s *processState) { s.pid, s.since, s.problem = cmd.Process.Pid, began, "" })
			tried()
			err = k.waitOrStop(ctx, cmd)
		}
		pause := minBackoff
		k.update(func(s *processState) {
			if time.Since(began) > stableAfter {
				s.crashes = 0
			}
			s.crashes++
			s.pid, s.since = 0, time.Time{}
			s.problem = fmt.Sprintf("etcd has ended (%s, attempt %d); its last message: %s", outcome(err), s.crashes, lastMessage(k.log, from))
			pause = min(maxBackoff, minBackoff<<min(s.crashes-1, 10))
		})
		tried()
		wait(ctx, pause)
	}
	k.update(func(s *processState) { *s = processState{} })
}

func (k *supervisor) update(change func(*processState)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.state)
}

func (k *supervisor) start() (*exec.Cmd, error) {
	if fileSize(k.log) > maxLogSize {
		if err := os.Rename(k.log, k.log+".1"); err != nil {
			return nil, err
		}
	}
	out, err := os.OpenFile(k.log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own descriptor
	k.mu.Lock()
	cmd := exec.Command(k.etcd, k.args...)
	k.mu.Unlock()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = environment()
	cmd.SysProcAttr = attributes()
	return cmd, spawn(cmd)
}

// environment is the environment of the agent without variables that etcd would read as flags.
func environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "ETCD_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// waitOrStop waits for the process, and stops it when the context ends.
func (k *supervisor) waitOrStop(ctx context.Context, cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// A paused process handles the signal only after it is resumed. Errors mean that the process has ended.
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Process.Signal(syscall.SIGCONT)
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case err := <-ended:
		return err
	case <-timeout.C:
	}
	_ = cmd.Process.Kill()
	return <-ended
}

// outcome describes how a process has ended. A member that was removed from its system exits without an error.
func outcome(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

func wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
