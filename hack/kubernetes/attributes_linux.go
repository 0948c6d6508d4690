package main

import "syscall"

// diesWithUs makes the kernel end a child when this process is killed. It follows the thread that
// started the child, which waits for it all the time.
func diesWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
