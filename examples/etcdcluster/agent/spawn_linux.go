package agent

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// attributes protect a process from a Ctrl-C in the agent's terminal, and end it with the agent.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan<- error
}

// spawn starts a process from a thread that lives as long as the agent: the parent-death signal is bound to the
// thread.
func spawn(cmd *exec.Cmd) error {
	done := make(chan error)
	spawner() <- spawnRequest{cmd, done}
	return <-done
}

var spawner = sync.OnceValue(func() chan<- spawnRequest {
	requests := make(chan spawnRequest)
	go func() {
		runtime.LockOSThread()
		for request := range requests {
			request.done <- request.cmd.Start()
		}
	}()
	return requests
})

// lock locks a file for the lifetime of this process.
func lock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
