//go:build !linux

package main

import "syscall"

func diesWithParent() *syscall.SysProcAttr { return nil }
