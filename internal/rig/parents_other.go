//go:build unix && !linux

package rig

import (
	"fmt"
	"os"
	"time"
)

// exitWithParents ends this process soon after its parent has ended.
func exitWithParents() {
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
