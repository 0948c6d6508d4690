package process

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan<- error
}

// spawn starts cmd from a thread that never ends: the kernel sends the parent-death signal when the
// thread that forked the child ends, not the process, and the Go runtime ends threads.
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
