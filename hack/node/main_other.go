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
		return // no node runs on this system
	}
	fmt.Fprintln(os.Stderr, "node: a Kubernetes node needs Linux: use a virtual machine, or set KUBECONFIG to use another cluster")
	os.Exit(1)
}
