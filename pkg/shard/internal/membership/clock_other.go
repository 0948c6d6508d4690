//go:build !linux

package membership

import "time"

// sinceBoot is the time since an arbitrary start.
func sinceBoot() time.Duration { return sinceStart() }
