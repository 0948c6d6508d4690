//go:build !linux

// Command node needs Linux.
package main

import (
	"fmt"
	"os"
	"slices"
)

func main() {
	if slices.Contains(os.Args, "--if-running") {
		return // it never does here
	}
	fmt.Fprintln(os.Stderr, "node: a Kubernetes node needs Linux: use a virtual machine with it, or name another cluster with KUBECONFIG")
	os.Exit(1)
}
