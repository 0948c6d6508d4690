package main

import "syscall"

// diesWithParent makes the kernel kill a child when this process ends. The kernel does so when the
// thread that started the child ends, so main locks that thread.
func diesWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
