package agent

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// attributes make a process one that a Ctrl-C in the agent's terminal does not reach, and that ends with the agent.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan<- error
}

// spawn starts a process from a thread that lasts as long as the agent: the kernel means the thread when it speaks of
// a parent's death.
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

// lock takes a file for this process, for as long as it lives.
func lock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
