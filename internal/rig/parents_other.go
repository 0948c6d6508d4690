//go:build unix && !linux

package rig

import (
	"fmt"
	"os"
	"time"
)

// endWithParents ends this process soon after the one that started it.
func endWithParents() {
	parent := os.Getppid()
	go func() {
		const interval = 100 * time.Millisecond
		for range time.Tick(interval) {
			if os.Getppid() != parent {
				fmt.Fprintln(os.Stderr, "the go that ran these tests was killed: ending")
				os.Exit(1)
			}
		}
	}()
}
