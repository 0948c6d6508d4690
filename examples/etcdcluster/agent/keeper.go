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
	// grace is how long an etcd has to end by itself. It would wait seven seconds for its clients' streams to end,
	// which never do, and only then give its leadership away: who wants it to be given away does that before. What
	// it has acknowledged is not lost when it is killed.
	grace = 1500 * time.Millisecond
	// firstPause and longestPause are how long to wait before a process that crashed is started again.
	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second
	// steady is how long a process has to run for its next crash to count as the first.
	steady = 10 * time.Second
	// largestLog is how much one log has before another one is begun.
	largestLog = 16 << 20
)

// keeper keeps one process running until it is told to end.
type keeper struct {
	etcd string
	log  string
	end  context.CancelFunc
	done chan struct{}

	mu    sync.Mutex
	args  []string
	state processState
}

// processState is what there is to say of a process.
type processState struct {
	pid     int
	since   time.Time
	crashes int
	problem string
}

// keep starts a process and returns when the first attempt to do so has been made.
func keep(etcd string, args []string, log string) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{etcd: etcd, args: args, log: log, end: cancel, done: make(chan struct{})}
	tried := make(chan struct{})
	go k.run(ctx, sync.OnceFunc(func() { close(tried) }))
	<-tried
	return k
}

// stop asks the process to end, kills it if it has not done so in time, and returns when it has ended.
func (k *keeper) stop() {
	if k == nil {
		return
	}
	k.end()
	<-k.done
}

func (k *keeper) look() processState {
	if k == nil {
		return processState{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// use makes others the arguments of the next process, should this one end.
func (k *keeper) use(args []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.args = args
}

func (k *keeper) run(ctx context.Context, tried func()) {
	defer close(k.done)
	for ctx.Err() == nil {
		began, from := time.Now(), sizeOf(k.log)
		cmd, err := k.start()
		if err == nil {
			k.note(func(s *processState) { s.pid, s.since, s.problem = cmd.Process.Pid, began, "" })
			tried()
			err = k.watch(ctx, cmd)
		}
		pause := firstPause
		k.note(func(s *processState) {
			if time.Since(began) > steady {
				s.crashes = 0
			}
			s.crashes++
			s.pid, s.since = 0, time.Time{}
			s.problem = fmt.Sprintf("etcd has ended (%s, attempt %d); its last words: %s", outcome(err), s.crashes, lastWords(k.log, from))
			pause = min(longestPause, firstPause<<min(s.crashes-1, 10))
		})
		tried()
		wait(ctx, pause)
	}
	k.note(func(s *processState) { *s = processState{} })
}

func (k *keeper) note(change func(*processState)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.state)
}

func (k *keeper) start() (*exec.Cmd, error) {
	if sizeOf(k.log) > largestLog {
		if err := os.Rename(k.log, k.log+".1"); err != nil {
			return nil, err
		}
	}
	out, err := os.OpenFile(k.log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own
	k.mu.Lock()
	cmd := exec.Command(k.etcd, k.args...)
	k.mu.Unlock()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = environment()
	cmd.SysProcAttr = attributes()
	return cmd, spawn(cmd)
}

// environment is the agent's own without what etcd would take for flags.
func environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "ETCD_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// watch waits for the process, and ends it when the context does.
func (k *keeper) watch(ctx context.Context, cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// One that is paused hears it only when it goes on. The errors are those of a process that is gone.
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Process.Signal(syscall.SIGCONT)
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case err := <-ended:
		return err
	case <-patience.C:
	}
	_ = cmd.Process.Kill()
	return <-ended
}

// outcome is how a process has ended, in words. One that was removed from its system ends without an error.
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
